package show

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"usher.sh/usher/internal/snapshot"
)

// OrderLines are the orders in which members leave nodes, a tree for each policy: what is below a role leaves before it.
func OrderLines(orders []snapshot.RoleOrder, width int) []string {
	var lines []string
	for i := range orders {
		t := orderTree{roles: map[string]*snapshot.OrderedRole{}, shown: map[string]bool{}, width: width}
		awaited := map[string]bool{}
		for k := range orders[i].Roles {
			r := &orders[i].Roles[k]
			t.roles[r.Role] = r
			for _, earlier := range r.After {
				awaited[earlier] = true
			}
		}
		t.add(fmt.Sprintf("  policy %s: what is below a role leaves before it", orders[i].Policy.Key()), "  ", "  ")
		for k := range orders[i].Roles {
			if r := &orders[i].Roles[k]; !awaited[r.Role] {
				t.grow(r, "  ", "  ")
			}
		}
		lines = append(lines, t.lines...)
	}
	return lines
}

// orderTree prints each role once with what is below it, however many wait for it.
type orderTree struct {
	roles map[string]*snapshot.OrderedRole
	shown map[string]bool
	width int
	lines []string
}

// grow adds a role behind first, and what leaves before it behind margin.
func (t *orderTree) grow(r *snapshot.OrderedRole, first, margin string) {
	below := r.After
	words := orderWords(r)
	if t.shown[r.Role] && len(below) > 0 {
		below, words = nil, r.Role+" (see above)"
	}
	t.shown[r.Role] = true
	rest := margin
	if len(below) > 0 {
		rest += "│  "
	}
	t.add(first+words, first, rest)
	for i, earlier := range below {
		head, under := "├─ ", "│  "
		if i == len(below)-1 {
			head, under = "└─ ", "   "
		}
		t.grow(t.roles[earlier], margin+head, margin+under)
	}
}

// add wraps a line whose first row begins with first, and the others with rest.
func (t *orderTree) add(line, first, rest string) {
	inner := 0
	if t.width > 0 {
		inner = max(20, t.width-max(ansi.StringWidth(first), ansi.StringWidth(rest)))
	}
	for i, row := range wrap(strings.TrimPrefix(line, first), inner) {
		if i == 0 {
			row = first + row
		} else {
			row = rest + row
		}
		t.lines = append(t.lines, row)
	}
}

func orderWords(r *snapshot.OrderedRole) string {
	names := make([]string, 0, len(r.Pods))
	for _, p := range r.Pods {
		names = append(names, p.Name)
	}
	words := clean(r.Role) + ": " + listNames(names)
	if r.Load {
		words += " (emptied, stays)"
	}
	return words
}

type orderJSON struct {
	Namespace   string    `json:"namespace"`
	Policy      string    `json:"policy"`
	Role        string    `json:"role"`
	LeavesAfter []string  `json:"leavesAfter"`
	Pods        []podJSON `json:"pods"`
}

func ordersJSON(orders []snapshot.RoleOrder) []orderJSON {
	all := []orderJSON{}
	for i := range orders {
		for k := range orders[i].Roles {
			r := &orders[i].Roles[k]
			one := orderJSON{Namespace: orders[i].Policy.Namespace, Policy: orders[i].Policy.Name, Role: r.Role, LeavesAfter: append([]string{}, r.After...)}
			for _, p := range r.Pods {
				one.Pods = append(one.Pods, podJSON{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
			}
			all = append(all, one)
		}
	}
	return all
}
