// Package recipes answers: what does a whole policy look like for a product that Usher has no driver for?
//
// A recipe is a file of this folder, NAME.yaml, and a page about it, docs/recipes/NAME.md. It is tested with answers of its product that were
// written down (testdata/NAME).
package recipes

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Recipe is an EvictionPolicy to be changed and applied.
type Recipe struct {
	Name string
	// About is what it is for, in a line: the first of its text.
	About string
	// Text is YAML with comments.
	Text string
}

// All returns the recipes, sorted by name.
func All() ([]Recipe, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("reading the recipes: %w", err)
	}
	var all []Recipe
	for _, entry := range entries {
		text, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the recipes: %w", err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		all = append(all, Recipe{Name: strings.TrimSuffix(entry.Name(), ".yaml"), About: strings.TrimPrefix(first, "# "), Text: string(text)})
	}
	return all, nil
}
