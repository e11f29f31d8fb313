package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/system/all"
)

const rolesLong = `List the built-in roles, or say of one when a member of it may leave its node, what is
asked of its system first, what may take its place, and what is done for a member
whose node is proven off.

With -o yaml the role is printed as an EvictionPolicy takes it in spec.roles: what is
written there takes the place of the built-in role of the same name.`

// rolesOptions is what `usher roles` was asked for.
type rolesOptions struct {
	genericiooptions.IOStreams

	output string
	name   string // "": all
}

func newRolesCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &rolesOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "roles [NAME]",
		Short: "Say when members of a system may leave",
		Long:  rolesLong,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.Complete(args); err != nil {
				return err
			}
			return o.Run()
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or yaml.")
	return cmd
}

// Complete reads the arguments.
func (o *rolesOptions) Complete(args []string) error {
	switch len(args) {
	case 0:
	case 1:
		o.name = args[0]
	default:
		return errors.New("name one role, or none for the list: usher roles [NAME]")
	}
	return oneOf("--output", o.output, "text", "yaml")
}

// Run prints.
func (o *rolesOptions) Run() error {
	roles, err := all.Roles()
	if err != nil {
		return fmt.Errorf("reading the built-in roles: %w", err)
	}
	if o.name == "" {
		return o.print(roles, show.Roles(roles).Lines)
	}
	for i := range roles {
		if roles[i].Name == o.name {
			return o.print(roles[i:i+1], show.Role(roles[i]).Lines)
		}
	}
	names := make([]string, len(roles))
	for i := range roles {
		names[i] = roles[i].Name
	}
	slices.Sort(names)
	if near := nearest(o.name, names); len(near) > 0 {
		return fmt.Errorf("there is no built-in role %q; did you mean %s?", o.name, near[0])
	}
	return fmt.Errorf("there is no built-in role %q; usher roles lists them", o.name)
}

func (o *rolesOptions) print(roles []v1alpha1.Role, lines func(int, show.Paint) []string) error {
	if o.output == "text" {
		return newVoice(o.IOStreams, o.output, show.Commands{}).page(nil, lines)
	}
	text, err := yaml.Marshal(roles)
	if err != nil {
		return fmt.Errorf("printing YAML: %w", err)
	}
	_, err = o.Out.Write(text)
	return err
}
