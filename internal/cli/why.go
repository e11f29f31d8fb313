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

Exit codes: 0 it may go, 1 wrong usage or no access, 2 it may not.`

// WhyOptions is what `usher why` was asked for.
type WhyOptions struct {
	genericiooptions.IOStreams

	config *genericclioptions.ConfigFlags
	dump   string
	output string

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
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json.")
	return cmd
}

// Complete reads the arguments.
func (o *WhyOptions) Complete(args []string) error {
	if len(args) != 1 {
		return errors.New("name one pod: usher why POD [-n NAMESPACE]")
	}
	kind, name, typed := strings.Cut(args[0], "/")
	if !typed {
		kind, name = "pod", args[0]
	}
	if !slices.Contains([]string{"pod", "pods", "po"}, kind) || name == "" {
		return fmt.Errorf("%q is not a pod: give NAME or pod/NAME, and the namespace with -n", args[0])
	}
	namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
	if o.dump != "" && err != nil {
		namespace, err = "default", nil
	}
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	o.pod = snapshot.Key{Namespace: namespace, Name: name}
	return nil
}

// Validate says what is wrong with the flags.
func (o *WhyOptions) Validate() error { return oneOf("--output", o.output, "text", "json") }

// Run answers.
func (o *WhyOptions) Run(ctx context.Context) error {
	seen, err := look(ctx, o.config, o.IOStreams, o.dump)
	if err != nil {
		return err
	}
	pod := seen.view.Cluster.PodNamed(o.pod)
	if pod == nil {
		return unknownPod(seen.view.Cluster, o.pod)
	}
	page := show.Why{Pod: pod, Blockers: drain.Why(seen.view, pod), Now: seen.view.Now}
	if err := newVoice(o.IOStreams, o.output).page(page.JSON, page.Lines); err != nil {
		return err
	}
	if len(page.Blockers) > 0 {
		return exitWith(exitBlocked)
	}
	return nil
}

func unknownPod(c *snapshot.Cluster, key snapshot.Key) error {
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
		return fmt.Errorf("%s, but namespace %s has one: usher why %s -n %s", text, strings.Join(elsewhere, ", "), key.Name, elsewhere[0])
	}
	if near := nearest(key.Name, here); len(near) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
	}
	return fmt.Errorf("%s (it has %s)", text, show.Count(len(here), "pod"))
}
