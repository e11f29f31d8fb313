package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

const whyLong = `Say whether a pod may be evicted now, and if not: everything that keeps it, since
when, what would unblock it, and what to type. Several pods, those of a workload and
those with some labels are answered for one by one.

Of a pod that an EvictionPolicy governs, its system is asked through Usher's manager.
With --replace the question is whether another member may take its place. It can be
asked for a day about a governed pod that is gone, by the name that it had.

Of a node, and of a pod on a node that is lost, it says which step of its fence is
waited for, and what is done for the members that were on it. Of a node it shows as
well in which order the roles of its policies leave it.

Exit codes: 0 they may go, 1 wrong usage or no access, 2 at least one may not.`

const whyExample = `  usher why web-5d9c-x2x7l -n shop
  usher why deployment/web statefulset/db -n shop
  usher why -l app=web -n shop`

// whyOptions is what `usher why` was asked for.
type whyOptions struct {
	genericiooptions.IOStreams

	config   *genericclioptions.ConfigFlags
	commands show.Commands
	dump     string
	output   string
	replace  bool
	selector string

	namespace string
	subjects  []subject
	labels    labels.Selector // nil without --selector
}

func newWhyCommand(name string, config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &whyOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:     "why POD… | TYPE/NAME… | node/NAME… | -l SELECTOR",
		Short:   "Say what keeps pods on their nodes",
		Long:    whyLong,
		Example: strings.ReplaceAll(whyExample, "  usher ", "  "+name+" "),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.commands = commandsOf(cmd)
			if err := o.Complete(args); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "Pods with these labels, instead of names.")
	cmd.Flags().StringVarP(&o.dump, "filename", "f", "", "A dump of the cluster's objects, YAML or JSON; - is standard input.")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "Say whether another member may take the place of this one, of a governed pod.")
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json.")
	return cmd
}

// Complete reads the arguments.
func (o *whyOptions) Complete(args []string) error {
	var err error
	if o.subjects, err = subjects(args, o.selector); err != nil {
		return err
	}
	if o.selector != "" {
		if o.labels, err = labels.Parse(o.selector); err != nil {
			return fmt.Errorf("-l %q is not a label selector: %w", o.selector, err)
		}
	}
	o.namespace, err = namespaceOf(o.config, o.dump)
	return err
}

// podArg reads the one pod that a command is about.
func podArg(config *genericclioptions.ConfigFlags, verb string, args []string) (snapshot.Key, error) {
	if len(args) != 1 {
		return snapshot.Key{}, fmt.Errorf("name one pod: usher %s POD [-n NAMESPACE]", verb)
	}
	kind, name, typed := strings.Cut(args[0], "/")
	if !typed {
		kind, name = "pod", args[0]
	}
	if !slices.Contains([]string{"pod", "pods", "po"}, kind) || name == "" {
		return snapshot.Key{}, fmt.Errorf("%q is not a pod: give NAME or pod/NAME, and the namespace with -n", args[0])
	}
	namespace, err := namespaceOf(config, "")
	return snapshot.Key{Namespace: namespace, Name: name}, err
}

// Validate says what is wrong with the flags.
func (o *whyOptions) Validate() error {
	if o.replace && o.dump != "" {
		return errors.New("--replace asks the pod's system, and -f reads a dump: use one of them")
	}
	return oneOf("--output", o.output, "text", "json")
}

// Run answers.
func (o *whyOptions) Run(ctx context.Context) error {
	if nodes, err := o.aboutNodes(); nodes || err != nil {
		if err != nil {
			return err
		}
		return o.whyNodes(ctx)
	}
	page := show.WhyPods{One: len(o.subjects) == 1 && o.subjects[0].kind == podKind}
	read := o.readDump
	if o.dump == "" {
		read = o.readLive
	}
	sets := o.unformedSets()
	view, pods, err := read(ctx)
	err = sets.among(ctx, o.subjects, err)
	switch {
	case isUnknown(err) && o.replace && page.One:
		return o.whyGone(ctx, view, snapshot.Key{Namespace: o.namespace, Name: o.subjects[0].name})
	case err != nil:
		return err
	}
	for _, pod := range pods {
		answer := show.Why{Pod: pod, Now: view.Now, Replace: o.replace, Set: sets.of(ctx, pod)}
		if !o.replace {
			answer.Blockers = drain.Why(view, pod)
		}
		if err := o.askSystem(ctx, &answer); err != nil {
			return err
		}
		o.addFence(ctx, view, &answer)
		o.addReplacements(ctx, &answer)
		page.Pods = append(page.Pods, answer)
	}
	return o.printPods(page)
}

// printPods prints the answers.
func (o *whyOptions) printPods(page show.WhyPods) error {
	for i := range page.Pods {
		at := &page.Pods[i]
		at.Blockers, at.Commands = o.commands.Blockers(at.Blockers), o.commands
		if at.Verdict != nil {
			at.Verdict.Refusals = o.commands.Blockers(at.Verdict.Refusals)
		}
	}
	if err := newVoice(o.IOStreams, o.output, o.commands).page(page.JSON, page.Lines); err != nil {
		return err
	}
	if !page.AllMayGo() {
		return exitWith(exitBlocked)
	}
	return nil
}

// unknownPod says so, and which pods a caller of that verb may mean.
func unknownPod(c *snapshot.Cluster, key snapshot.Key, verb string, commands show.Commands) error {
	var here, elsewhere []string
	c.EachPod(func(p *snapshot.Pod) {
		switch {
		case p.Name == key.Name:
			elsewhere = append(elsewhere, p.Namespace)
		case p.Namespace == key.Namespace:
			here = append(here, p.Name)
		}
	})
	slices.Sort(elsewhere)
	slices.Sort(here)
	text := fmt.Sprintf("namespace %s has no pod %q", key.Namespace, key.Name)
	if len(elsewhere) > 0 {
		return unknown("%s, but namespace %s has one: %s", text, strings.Join(elsewhere, ", "), commands.In(fmt.Sprintf("usher %s %s -n %s", verb, key.Name, elsewhere[0])))
	}
	if near := nearest(key.Name, here); len(near) > 0 {
		return unknown("%s; did you mean %s?", text, strings.Join(near, " or "))
	}
	return unknown("%s (it has %s)", text, show.Count(len(here), "pod"))
}
