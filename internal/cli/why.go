package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

const whyLong = `Say whether a pod may be evicted now, and if not: everything that keeps it, since
when, what would unblock it, and what to type.

Of a pod that an EvictionPolicy governs, its system is asked through Usher's manager.
With --replace the question is whether another member may take its place. It can be
asked for a day about a governed pod that is gone, by the name that it had.

Exit codes: 0 it may go, 1 wrong usage or no access, 2 it may not.`

// WhyOptions is what `usher why` was asked for.
type WhyOptions struct {
	genericiooptions.IOStreams

	config  *genericclioptions.ConfigFlags
	dump    string
	output  string
	replace bool

	pod snapshot.Key
}

func newWhyCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &WhyOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "why POD",
		Short: "Say what keeps a pod on its node",
		Long:  whyLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Complete(args); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.dump, "filename", "f", "", "A dump of the cluster's objects, YAML or JSON; - is standard input.")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "Say whether another member may take the place of this one, of a governed pod.")
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json.")
	return cmd
}

// Complete reads the arguments.
func (o *WhyOptions) Complete(args []string) error {
	var err error
	o.pod, err = podArg(o.config, "why", args)
	if o.dump != "" && err != nil && o.pod.Name != "" {
		o.pod.Namespace, err = "default", nil // no kubeconfig is needed for a dump
	}
	return err
}

// podArg reads the one pod that a command is about. Its name is set where only the namespace cannot be told.
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
	namespace, _, err := config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return snapshot.Key{Name: name}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return snapshot.Key{Namespace: namespace, Name: name}, nil
}

// Validate says what is wrong with the flags.
func (o *WhyOptions) Validate() error {
	if o.replace && o.dump != "" {
		return errors.New("--replace asks the pod's system, and -f reads a dump: use one of them")
	}
	return oneOf("--output", o.output, "text", "json")
}

// Run answers.
func (o *WhyOptions) Run(ctx context.Context) error {
	seen, err := look(ctx, o.config, o.IOStreams, o.dump)
	if err != nil {
		return err
	}
	pod := seen.view.Cluster.PodNamed(o.pod)
	if pod == nil && o.replace {
		return o.whyGone(ctx, seen.view)
	}
	if pod == nil {
		return unknownPod(seen.view.Cluster, o.pod, "why")
	}
	page := show.Why{Pod: pod, Now: seen.view.Now, Replace: o.replace}
	if !o.replace {
		page.Blockers = drain.Why(seen.view, pod)
	}
	if err := o.askSystem(ctx, &page); err != nil {
		return err
	}
	return o.tell(page)
}

// tell shows the answer.
func (o *WhyOptions) tell(page show.Why) error {
	if err := newVoice(o.IOStreams, o.output).page(page.JSON, page.Lines); err != nil {
		return err
	}
	if len(page.Blockers) > 0 {
		return exitWith(exitBlocked)
	}
	return nil
}

// unknownPod says so, and which pods a caller of that verb may mean.
func unknownPod(c *snapshot.Cluster, key snapshot.Key, verb string) error {
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
		return fmt.Errorf("%s, but namespace %s has one: usher %s %s -n %s", text, strings.Join(elsewhere, ", "), verb, key.Name, elsewhere[0])
	}
	if near := nearest(key.Name, here); len(near) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
	}
	return fmt.Errorf("%s (it has %s)", text, show.Count(len(here), "pod"))
}
