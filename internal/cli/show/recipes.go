package show

import "usher.sh/usher/internal/recipes"

// Recipes is the list of recipes.
type Recipes []recipes.Recipe

// Lines is the list for people, a line for each recipe.
func (r Recipes) Lines(width int, paint Paint) []string {
	var list []described
	for i := range r {
		list = append(list, described{r[i].Name, r[i].About})
	}
	return append(descriptions(list, width, paint), "", "usher recipes NAME prints one to be changed and applied; docs/recipes/NAME.md says what it protects, and what it does not")
}
