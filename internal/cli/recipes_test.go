package cli

import (
	"strings"
	"testing"

	"usher.sh/usher/internal/recipes"
)

func TestRecipes(t *testing.T) {
	all, err := recipes.All()
	if err != nil {
		t.Fatal(err)
	}
	list, completed := usher(t, "", "recipes"), usher(t, "", "__complete", "recipes", "")
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
		if !strings.Contains(list.out, r.Name+" ") || !strings.Contains(completed.out, r.Name+"\t"+r.About) {
			t.Errorf("%s is not in\n%s\nor\n%s", r.Name, list.out, completed.out)
		}
		if got := usher(t, "", "recipes", r.Name); got.code != exitDone || got.out != r.Text || got.err != "" {
			t.Errorf("exit %d, and not the recipe %s: %s%s", got.code, r.Name, got.out, got.err)
		}
	}
	if list.code != exitDone || list.err != "" {
		t.Errorf("exit %d: %s", list.code, list.err)
	}
	unknown := usher(t, "", "recipes", "oracle")
	if unknown.code == exitDone || unknown.out != "" || !strings.Contains(unknown.err, `there is no recipe "oracle"; there are `+strings.Join(names, ", ")) {
		t.Errorf("exit %d: %s%s", unknown.code, unknown.out, unknown.err)
	}
	if several := usher(t, "", "recipes", "kafka", "redis"); several.code == exitDone || !strings.Contains(several.err, "usher recipes [NAME]") {
		t.Errorf("exit %d: %s", several.code, several.err)
	}
}
