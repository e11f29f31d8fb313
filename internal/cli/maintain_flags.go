package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"usher.sh/usher/api/v1alpha1"
)

// maintainFlags are the flags that make a NodeMaintenance. Those that `usher drain` has mean the same.
type maintainFlags struct {
	selector       string
	dynamic        bool
	name           string
	requester      string
	reason         string
	force          bool
	deleteEmptyDir bool
	daemonSets     string
	surge          string
	maxParallel    int
	maxZones       int
	deadline       string
	atDeadline     string
	until          string
	untilTimeout   time.Duration
	hook           string
	deleteNodes    bool
	replaceMembers bool
}

func (f *maintainFlags) add(fs *pflag.FlagSet) {
	fs.StringVarP(&f.selector, "selector", "l", "", "Nodes with these labels, instead of names.")
	fs.BoolVar(&f.dynamic, "dynamic", false, "With -l: take nodes that match later as well, and give back those that match no more.")
	fs.StringVar(&f.name, "name", "", "The name of the NodeMaintenance; default: the node's, or one made of the selection.")
	fs.StringVar(&f.requester, "requester", "", "For whom, with a domain: autoscaler.example.com/pool-a. Default: person.usher.sh/ and your user name.")
	fs.StringVar(&f.reason, "reason", "", "Why the nodes leave service; it is written on them.")
	fs.BoolVar(&f.force, "force", false, "Evict also pods that no controller owns: nothing replaces them.")
	fs.BoolVar(&f.deleteEmptyDir, "delete-emptydir-data", false, "Evict also pods with emptyDir volumes: that data is lost.")
	fs.StringVar(&f.daemonSets, "daemonsets", "ignore", "ignore: DaemonSet pods stay. evict: they leave too, after all others.")
	fs.StringVar(&f.surge, "surge", "auto", "Start replacements before evicting: auto (where a budget could never allow it or the only replica would be down), never, always.")
	fs.IntVar(&f.maxParallel, "max-parallel", 1, "How many nodes may be out of service at once, over all maintenances.")
	fs.IntVar(&f.maxZones, "max-zones", 1, "How many zones may have nodes out of service at once, over all maintenances.")
	fs.StringVar(&f.deadline, "deadline", "", "When the drains have to be over: a duration from now (2h) or a time (2026-01-02T15:04:05Z).")
	fs.StringVar(&f.atDeadline, "at-deadline", "stop", "What happens to pods that are still held then: stop (and report) or delete (past their budgets, in safety order).")
	fs.StringVar(&f.until, "until", "", "Give a drained node back once this has happened: boot (a new boot), kubelet-version (a new kubelet), or CONDITION=STATUS (at once where it has that, as Ready=True before a reboot). Default: it stays cordoned until --delete.")
	fs.DurationVar(&f.untilTimeout, "until-timeout", time.Hour, "How long --until is waited for before the node counts as blocked.")
	fs.StringVar(&f.hook, "hook", "", "An http or https URL that is sent a POST with each drained node, as JSON, until it answers with a 2xx status.")
	fs.BoolVar(&f.deleteNodes, "delete-nodes", false, "Delete the Nodes once they are drained.")
	fs.BoolVar(&f.replaceMembers, "replace-members", false, "With --delete-nodes: request successors for members of policies with a provider whose data is on such a node alone, before its Node is deleted.")
}

func (f *maintainFlags) validate() error {
	errs := []error{
		oneOf("--daemonsets", f.daemonSets, "ignore", "evict"),
		oneOf("--surge", f.surge, "auto", "never", "always"),
		oneOf("--at-deadline", f.atDeadline, "stop", "delete"),
	}
	for flag, value := range map[string]int{"--max-parallel": f.maxParallel, "--max-zones": f.maxZones} {
		if value < 1 {
			errs = append(errs, fmt.Errorf("%s=%d: give 1 or more", flag, value))
		}
	}
	if f.atDeadline == "delete" && f.deadline == "" {
		errs = append(errs, errors.New("--at-deadline=delete needs a --deadline"))
	}
	if f.dynamic && f.selector == "" {
		errs = append(errs, errors.New("--dynamic goes with -l: named nodes are what they are"))
	}
	if f.requester != "" && !requesterPattern.MatchString(f.requester) {
		errs = append(errs, fmt.Errorf("--requester %q: give a domain and a name: autoscaler.example.com/pool-a", f.requester))
	}
	if f.hook != "" && !isWebURL(f.hook) {
		errs = append(errs, fmt.Errorf("--hook %q: give an http or https URL", f.hook))
	}
	if f.untilTimeout < time.Second {
		errs = append(errs, fmt.Errorf("--until-timeout=%s: give 1s or more", f.untilTimeout))
	}
	if f.name != "" {
		for _, problem := range validation.IsDNS1123Subdomain(f.name) {
			errs = append(errs, fmt.Errorf("--name %q: %s", f.name, problem))
		}
	}
	return errors.Join(errs...)
}

// maintenance is the object that nodes and flags ask for.
func (f *maintainFlags) maintenance(nodes []string, user string, now time.Time) (*v1alpha1.NodeMaintenance, error) {
	m := &v1alpha1.NodeMaintenance{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeMaintenance"},
		Spec: v1alpha1.NodeMaintenanceSpec{
			Reason: f.reason, Requester: cmp.Or(f.requester, personOf(user)),
			Drain: v1alpha1.MaintenanceDrain{
				UnmanagedPods: handled(f.force), EmptyDirPods: handled(f.deleteEmptyDir), DaemonSetPods: v1alpha1.DaemonSetsIgnore,
				Surge: map[string]v1alpha1.SurgePolicy{"auto": v1alpha1.SurgeAuto, "never": v1alpha1.SurgeNever, "always": v1alpha1.SurgeAlways}[f.surge],
			},
			Concurrency: v1alpha1.MaintenanceConcurrency{Nodes: int32(f.maxParallel), Zones: int32(f.maxZones)}, //nolint:gosec // the schema refuses what is too many
			AtDeadline:  v1alpha1.DeadlineStop,
		},
	}
	if f.daemonSets == "evict" {
		m.Spec.Drain.DaemonSetPods = v1alpha1.DaemonSetsEvict
	}
	if f.atDeadline == "delete" {
		m.Spec.AtDeadline = v1alpha1.DeadlineDeletePods
	}
	var errs []error
	m.Spec.Nodes = v1alpha1.NodeSelection{Names: nodes}
	if f.selector != "" {
		selector, err := labelSelectorOf(f.selector)
		if err != nil {
			errs = append(errs, fmt.Errorf("-l %q is not a label selector: %w", f.selector, err))
		}
		m.Spec.Nodes = v1alpha1.NodeSelection{Selector: selector, Selection: v1alpha1.SelectionFixed}
		if f.dynamic {
			m.Spec.Nodes.Selection = v1alpha1.SelectionDynamic
		}
	}
	deadline, err := parseDeadline(f.deadline, now)
	if !deadline.IsZero() {
		m.Spec.DeadlineTime = new(metav1.NewTime(deadline.Truncate(time.Second)))
	}
	m.Spec.WhenDrained, errs = f.whenDrained(append(errs, err))
	m.Name = cmp.Or(f.name, nameFor(m))
	return m, errors.Join(errs...)
}

// requesterPattern is what NodeMaintenances accept as a requester.
var requesterPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`)

// conditionPattern is what NodeMaintenances accept as the type of a condition.
var conditionPattern = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)

func isWebURL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// labelSelectorOf is a selector as kubectl's -l takes it, where != is notin of one value.
func labelSelectorOf(words string) (*metav1.LabelSelector, error) {
	requirements, err := labels.ParseToRequirements(words)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller names the flag
	}
	for i := range requirements {
		if requirements[i].Operator() != selection.NotEquals {
			continue
		}
		notIn, err := labels.NewRequirement(requirements[i].Key(), selection.NotIn, requirements[i].Values().List())
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller names the flag
		}
		requirements[i] = *notIn
	}
	return metav1.ParseToLabelSelector(labels.NewSelector().Add(requirements...).String()) //nolint:wrapcheck // the caller names the flag
}

func handled(evict bool) v1alpha1.PodHandling {
	if evict {
		return v1alpha1.PodsEvict
	}
	return v1alpha1.PodsBlock
}

func (f *maintainFlags) whenDrained(errs []error) (v1alpha1.WhenDrained, []error) {
	var when v1alpha1.WhenDrained
	if f.hook != "" {
		when.Hook = &v1alpha1.MaintenanceHook{URL: f.hook, Timeout: metav1.Duration{Duration: 10 * time.Second}}
	}
	if f.until != "" {
		wait := &v1alpha1.MaintenanceWait{Timeout: metav1.Duration{Duration: f.untilTimeout}}
		kind, status, condition := strings.Cut(f.until, "=")
		switch {
		case f.until == "boot":
			wait.For = v1alpha1.WaitBootIDChanged
		case f.until == "kubelet-version":
			wait.For = v1alpha1.WaitKubeletVersionChanged
		case condition && conditionPattern.MatchString(kind):
			wait.For = v1alpha1.WaitCondition
			wait.Condition = &v1alpha1.NodeConditionRef{Type: kind, Status: metav1.ConditionStatus(status)}
			errs = append(errs, oneOf("--until "+kind, status, "True", "False", "Unknown"))
		default:
			errs = append(errs, fmt.Errorf("--until %q is not known: it can be boot, kubelet-version, or CONDITION=STATUS", f.until))
		}
		when.Wait = wait
	}
	switch {
	case f.replaceMembers && !f.deleteNodes:
		errs = append(errs, errors.New("--replace-members goes with --delete-nodes: a node that stays is given back with its data"))
	case f.deleteNodes:
		when.DeleteNode = &v1alpha1.DeleteNode{Members: v1alpha1.MembersKeep}
		if f.replaceMembers {
			when.DeleteNode.Members = v1alpha1.MembersReplace
		}
	case f.until == "":
		when.KeepCordoned = &v1alpha1.KeepCordoned{}
	}
	return when, errs
}

// unnamed is what no requester's name may have.
var unnamed = regexp.MustCompile(`[^-A-Za-z0-9._]+`)

// personOf names a user as a requester.
func personOf(user string) string {
	return "person.usher.sh/" + cmp.Or(strings.Trim(unnamed.ReplaceAllString(user, "-"), "-._"), "unknown")
}

// nameFor names a maintenance of one node as the node, and any other by what it selects and for whom: the same command finds it again.
func nameFor(m *v1alpha1.NodeMaintenance) string {
	selection := m.Spec.Nodes
	if len(selection.Names) == 1 {
		return selection.Names[0]
	}
	text := strings.Join(selection.Names, " ")
	if selection.Selector != nil {
		text = metav1.FormatLabelSelector(selection.Selector)
	}
	sum := sha256.Sum256([]byte(text + "\n" + m.Spec.Requester))
	return "nodes-" + hex.EncodeToString(sum[:4])
}

// manifest is a NodeMaintenance without its status.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec v1alpha1.NodeMaintenanceSpec `json:"spec"`
}

func manifestOf(m *v1alpha1.NodeMaintenance) manifest {
	out := manifest{TypeMeta: m.TypeMeta, Spec: m.Spec}
	out.Metadata.Name = m.Name
	return out
}
