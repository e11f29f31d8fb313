package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/observe"
)

const evictionsLong = `List the pods whose eviction is asked for: by which requesters, which responder makes
them safe to leave, and what that waits for.`

// evictionsOptions is what `usher evictions` was asked for.
type evictionsOptions struct {
	genericiooptions.IOStreams

	config   *genericclioptions.ConfigFlags
	commands show.Commands
	all      bool
	output   string

	namespace string // "": all
}

func newEvictionsCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &evictionsOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "evictions",
		Short: "List the evictions that are under way, and what each waits for",
		Long:  evictionsLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.commands = commandsOf(cmd)
			if err := o.Complete(args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "List those of all namespaces.")
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json.")
	return cmd
}

// Complete reads the arguments.
func (o *evictionsOptions) Complete(args []string) error {
	if len(args) > 0 {
		return errors.New("usher evictions takes no names; usher why POD looks at one pod")
	}
	if err := oneOf("--output", o.output, "text", "json"); err != nil || o.all {
		return err
	}
	var err error
	if o.namespace, _, err = o.config.ToRawKubeConfigLoader().Namespace(); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return nil
}

// Run lists.
func (o *evictionsOptions) Run(ctx context.Context) error {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	// Evictions first: the requester of each of them is seen then, unless that was withdrawn.
	evictions, err := conn.evictions.Evictions(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return o.unread("reading evictions", err)
	}
	requests, err := conn.evictions.Requests(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return o.unread("reading eviction requests", err)
	}
	page := show.Evictions{Wanted: wanted(requests, evictions), Now: conn.clock.Now(), Commands: o.commands}
	return newVoice(o.IOStreams, o.output, o.commands).page(page.JSON, page.Lines)
}

// unread says why they cannot be listed, and what would allow it.
func (o *evictionsOptions) unread(doing string, err error) error {
	return notServed(observe.RefusedInstalled(o.namespace, doing, err, "usher-view"))
}

// wanted joins what is asked for with what becomes of it, by pod. An eviction that is not requested any more is just being
// ended.
func wanted(requests *api.EvictionRequestList, evictions *api.EvictionList) []show.Wanted {
	found := map[types.UID]*show.Wanted{}
	for i := range evictions.Items {
		e, pod := observe.EvictionFacts(&evictions.Items[i]), evictions.Items[i].Spec.Target.Pod
		if !e.Ended && pod != nil {
			found[pod.UID] = &show.Wanted{Namespace: e.Namespace, Pod: pod.Name, Eviction: e}
		}
	}
	for i := range requests.Items {
		r, pod := observe.RequestFacts(&requests.Items[i]), requests.Items[i].Spec.Target.Pod
		if r.Withdrawn || r.Ended || pod == nil {
			continue
		}
		if found[pod.UID] == nil {
			found[pod.UID] = &show.Wanted{Namespace: r.Namespace, Pod: pod.Name}
		}
		found[pod.UID].By = append(found[pod.UID].By, r.Requester)
	}
	var all []show.Wanted
	for _, w := range found {
		if len(w.By) == 0 {
			continue
		}
		slices.Sort(w.By)
		all = append(all, *w)
	}
	slices.SortFunc(all, func(a, b show.Wanted) int {
		return strings.Compare(a.Namespace+"/"+a.Pod, b.Namespace+"/"+b.Pod)
	})
	return all
}
