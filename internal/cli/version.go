package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/install"
)

// stamped is set by the linker in releases.
var stamped string

// Version says which version this is: the release, the module's version, or the
// commit that it was built from.
func Version() string {
	if stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if commit := setting(info, "vcs.revision"); commit != "" {
		return "devel-" + commit[:min(12, len(commit))]
	}
	return "devel"
}

const versionLong = `Say which version this is: the release, the commit that it was built from, and the Go
version; and which image Usher's manager runs in the cluster, if there is one that can
be asked. That takes three seconds at most, and --client leaves it out.`

// managerPatience bounds how long the cluster is asked for its manager.
const managerPatience = 3 * time.Second

// versionOptions is what `usher version` was asked for.
type versionOptions struct {
	genericiooptions.IOStreams

	config *genericclioptions.ConfigFlags
	client bool
	output string
}

func newVersionCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &versionOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Long:  versionLong,
		Args:  noNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("--output", o.output, "text", "json"); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.client, "client", false, "Ask no cluster.")
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json.")
	return cmd
}

// Run prints the versions. A cluster that does not answer is no failure.
func (o *versionOptions) Run(ctx context.Context) error {
	page := show.Version{Version: Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		page.Commit, page.Modified = setting(info, "vcs.revision"), setting(info, "vcs.modified") == "true"
	}
	if !o.client {
		var err error
		if page.Manager, err = o.manager(ctx); err != nil {
			page.Unknown = err.Error()
		}
	}
	return newVoice(o.IOStreams, o.output, show.Commands{}).page(page.JSON, page.Lines)
}

// manager reads the manager's Deployment. Its error is a sentence for people.
func (o *versionOptions) manager(ctx context.Context) (*show.Manager, error) {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return nil, fmt.Errorf("not asked for: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, managerPatience)
	defer cancel()
	namespace := systemNamespace(o.config)
	found, err := conn.client.AppsV1().Deployments(namespace).Get(ctx, install.ManagerName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("not installed in namespace %s", namespace)
	case err != nil:
		return nil, fmt.Errorf("unknown: %w", err)
	}
	m := &show.Manager{Namespace: namespace, Replicas: found.Status.Replicas, Updated: found.Status.UpdatedReplicas, Ready: found.Status.ReadyReplicas}
	if containers := found.Spec.Template.Spec.Containers; len(containers) > 0 {
		m.Image = containers[0].Image // the manifests have one
	}
	return m, nil
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
