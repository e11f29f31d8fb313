package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/recipes"
)

const recipesLong = `List the policies for products that Usher has no driver for, or print one to be changed
and applied. It is in mode Audit: nothing is refused until that is changed.

  usher recipes kafka > policy.yaml
  usher recipes kafka | kubectl apply -n kafka -f - --dry-run=server

docs/recipes/ says what each protects, and what it does not.`

// recipesOptions is what `usher recipes` was asked for.
type recipesOptions struct {
	genericiooptions.IOStreams

	name string // "": all
}

func newRecipesCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &recipesOptions{IOStreams: streams}
	return &cobra.Command{
		Use:               "recipes [NAME]",
		Short:             "Print a policy for a well-known product",
		Long:              recipesLong,
		ValidArgsFunction: completeRecipes,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.Complete(args); err != nil {
				return err
			}
			return o.Run()
		},
	}
}

func completeRecipes(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := recipes.All()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for i := range all {
		names = append(names, cobra.CompletionWithDesc(all[i].Name, all[i].About))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// Complete reads the arguments.
func (o *recipesOptions) Complete(args []string) error {
	switch len(args) {
	case 0:
	case 1:
		o.name = args[0]
	default:
		return errors.New("name one recipe, or none for the list: usher recipes [NAME]")
	}
	return nil
}

// Run prints.
func (o *recipesOptions) Run() error {
	all, err := recipes.All()
	if err != nil {
		return err
	}
	if o.name == "" {
		return newVoice(o.IOStreams, "text", show.Commands{}).page(nil, show.Recipes(all).Lines)
	}
	names := make([]string, len(all))
	for i := range all {
		if names[i] = all[i].Name; all[i].Name == o.name {
			_, err := fmt.Fprint(o.Out, all[i].Text)
			return err
		}
	}
	return fmt.Errorf("there is no recipe %q; there are %s", o.name, strings.Join(names, ", "))
}
