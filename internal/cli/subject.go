package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/snapshot"
)

// subject is a pod, or what owns pods.
type subject struct {
	kind string // in small letters, singular
	name string
	// foreign: the group of the kind was given, and is none of Kubernetes' own.
	foreign bool
}

// podKind is the kind of a name without one.
const podKind = "pod"

// nodeKind is the kind of nodes, of which it is asked what their fence waits for.
const nodeKind = "node"

// kindNames are the kinds by which pods can be meant, with kubectl's short names.
var kindNames = map[string]string{
	"po": podKind, "deploy": "deployment", "rs": "replicaset", "sts": "statefulset",
	"no": nodeKind, nodeKind: nodeKind, "ds": "daemonset", "rc": "replicationcontroller", "cj": "cronjob",
	podKind: podKind, "deployment": "deployment", "replicaset": "replicaset", "statefulset": "statefulset",
	"daemonset": "daemonset", "replicationcontroller": "replicationcontroller", "cronjob": "cronjob", "job": "job",
}

// kindOf reads a kind as kubectl does: in any case, plural or short, with or without its
// group. Known: it is one that Kubernetes itself has.
func kindOf(word string) (kind string, known bool) {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	for _, name := range []string{word, strings.TrimSuffix(word, "s")} {
		if kind, known = kindNames[name]; known {
			return kind, true
		}
	}
	return strings.TrimSuffix(word, "s"), false
}

// foreignGroup reports whether a kind is given with a group, or a version and a group, that none of Kubernetes' own kinds of owners has.
func foreignGroup(word string) bool {
	_, group, given := strings.Cut(strings.ToLower(word), ".")
	return given && group != "apps" && group != "batch" && !strings.HasSuffix(group, ".apps") && !strings.HasSuffix(group, ".batch")
}

// subjects reads arguments as kubectl does: NAME, TYPE/NAME, or TYPE NAME… . With a selector
// the only argument there may be is the type pods.
func subjects(args []string, selector string) ([]subject, error) {
	kind := podKind
	if first, known := leadingKind(args, selector); known {
		kind, args = first, args[1:]
	}
	if selector != "" {
		if len(args) > 0 || kind != podKind {
			return nil, errors.New("-l selects pods by their labels: give it alone, or names without it")
		}
		return nil, nil
	}
	if len(args) == 0 {
		return nil, errors.New("name a pod or what owns pods: usher why POD, usher why deployment/NAME, or usher why -l SELECTOR [-n NAMESPACE]")
	}
	var all []subject
	for _, arg := range args {
		s, err := subjectOf(kind, arg)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all, nil
}

// leadingKind returns the kind that the first argument is, if it is not a name itself.
func leadingKind(args []string, selector string) (string, bool) {
	alone := len(args) == 1 && selector == ""
	if len(args) == 0 || alone || strings.Contains(args[0], "/") {
		return "", false
	}
	return kindOf(args[0])
}

// subjectOf reads NAME or TYPE/NAME.
func subjectOf(kind, arg string) (subject, error) {
	s := subject{kind: kind, name: arg}
	if of, name, slash := strings.Cut(arg, "/"); slash {
		s.kind, _ = kindOf(of)
		s.name, s.foreign = name, foreignGroup(of)
	}
	if s.name == "" || s.kind == "" {
		return s, fmt.Errorf("%q has no name: give NAME or TYPE/NAME, and the namespace with -n", arg)
	}
	return s, nil
}

// podsOf returns the pods of a namespace that are meant, each once, in the order of what
// they were named by.
func podsOf(c *snapshot.Cluster, namespace string, named []subject, selector labels.Selector, commands show.Commands) ([]*snapshot.Pod, error) {
	if selector != nil {
		return podsWith(c, namespace, selector)
	}
	var found []*snapshot.Pod
	seen := map[*snapshot.Pod]bool{}
	for _, s := range named {
		meant, err := podsNamed(c, namespace, s, commands)
		if err != nil {
			return nil, err
		}
		for _, p := range meant {
			if !seen[p] {
				seen[p] = true
				found = append(found, p)
			}
		}
	}
	return found, nil
}

func podsWith(c *snapshot.Cluster, namespace string, selector labels.Selector) ([]*snapshot.Pod, error) {
	found := slices.DeleteFunc(slices.Clone(c.PodsIn(namespace)), func(p *snapshot.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) })
	if len(found) == 0 {
		return nil, unknown("namespace %s has no pod with the labels %s", namespace, selector)
	}
	return found, nil
}

// podsNamed returns the pod of a name, or what an object owns.
func podsNamed(c *snapshot.Cluster, namespace string, s subject, commands show.Commands) ([]*snapshot.Pod, error) {
	if s.kind == podKind {
		key := snapshot.Key{Namespace: namespace, Name: s.name}
		p := c.PodNamed(key)
		if p == nil {
			return nil, unknownPod(c, key, "why", commands)
		}
		return []*snapshot.Pod{p}, nil
	}
	if unread := unreadAbout(c, s.kind); unread != "" {
		return nil, fmt.Errorf("what %s %q of namespace %s owns is not known: %s", s.kind, s.name, namespace, unread)
	}
	owned := ownedBy(c, namespace, s)
	if len(owned) == 0 {
		return nil, unknownOwner(c, namespace, s)
	}
	return owned, nil
}

// ownedBy returns the pods that an object owns, or that belong to what it owns: those of a
// Deployment through its ReplicaSets.
func ownedBy(c *snapshot.Cluster, namespace string, s subject) []*snapshot.Pod {
	is := func(o snapshot.Owner) bool { return strings.EqualFold(o.Kind, s.kind) && o.Name == s.name }
	return slices.DeleteFunc(slices.Clone(c.PodsIn(namespace)), func(p *snapshot.Pod) bool {
		w := c.WorkloadOf(p.OwnerKey())
		return !is(p.Owner) && (w == nil || !is(w.Owner))
	})
}

// unknownOwner says that nothing of this name owns pods, and what may be meant.
func unknownOwner(c *snapshot.Cluster, namespace string, s subject) error {
	var names []string
	note := func(o snapshot.Owner) {
		if strings.EqualFold(o.Kind, s.kind) && !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
	}
	for _, p := range c.PodsIn(namespace) {
		note(p.Owner)
		if w := c.WorkloadOf(p.OwnerKey()); w != nil {
			note(w.Owner)
		}
	}
	text := fmt.Sprintf("namespace %s has no %s %q that owns pods", namespace, s.kind, s.name)
	if near := nearest(s.name, names); len(near) > 0 {
		return unknown("%s; did you mean %s?", text, strings.Join(near, " or "))
	}
	return unknown("%s", text)
}

// through are the resources by which it is known what a pod's owner belongs to in turn.
var through = map[string]string{"deployment": "replicasets", "cronjob": "jobs"}

// unreadAbout says what would have to be read to know which pods an object of a kind
// owns; "" if all of it was.
func unreadAbout(c *snapshot.Cluster, kind string) string {
	if resource, indirect := through[kind]; indirect {
		if gap, unread := c.Gap(resource); unread {
			return fmt.Sprintf("%s cannot be read (%s)", resource, gap.Reason)
		}
	}
	return ""
}

// namespaceOf returns the namespace that a command is about. A dump needs no kubeconfig.
func namespaceOf(config *genericclioptions.ConfigFlags, dump string) (string, error) {
	namespace, _, err := config.ToRawKubeConfigLoader().Namespace()
	switch {
	case err == nil:
		return namespace, nil
	case dump != "":
		return "default", nil
	}
	return "", fmt.Errorf("reading the kubeconfig: %w", err)
}
