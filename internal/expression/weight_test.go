package expression

import (
	"strings"
	"testing"
)

// answers are what a system may say at most: a long list of lists, and a long text.
func answers() Facts {
	var deep []any
	for range 300 {
		deep = append(deep, numbers()[:500])
	}
	return Facts{
		"deep": deep, "short": numbers()[:3], "long": strings.Repeat("ab c", 1<<18),
		"states": []any{map[string]any{"name": "a", "ok": true}, map[string]any{"name": "b", "ok": false}},
	}
}

// TestWhatIsLargeIsDear: each of these counts little by the number of its calls.
func TestWhatIsLargeIsDear(t *testing.T) {
	language := toyLanguage(t, Schema{Open: true})
	for _, text := range []string{
		`system.deep == system.deep`,
		`system.deep != [system.deep]`,
		`system.deep in [system.deep, system.deep]`,
		`{"a": system.deep, "b": system.deep}.size() == 2`,
		`[system.deep, system.deep][0].size() == 300`,
		`system.short.map(x, system.deep).size() == 3`,
		`system.deep.flatten().size() == 5`,
		`(system.long + system.long + system.long).size() > 5`,
		`system.long.size() == 3`,
		`bytes(system.long).size() == 3`,
		`system.long < system.long`,
		`[system.long, system.long, system.long].join(",") == ""`,
		`system.deep`,
		`[system.deep, system.deep]`,
	} {
		expression, err := language.Limited(text, Dynamic, CostLimit)
		if err != nil {
			t.Fatal(text, err)
		}
		costs := &CostBudget{left: 1 << 60}
		_, _ = expression.Eval(&Scope{System: answers(), CostBudget: costs})
		if cost := uint64(1<<60) - costs.left; cost < 100_000 {
			t.Errorf("%s costs %d", text, cost)
		}
	}
}

func TestWhatGrowsByItselfEnds(t *testing.T) {
	language := toyLanguage(t, Schema{Open: true})
	grown := strings.Repeat(".map(x, x + x + x + x + x + x + x + x)", 5)
	for name, text := range map[string]string{
		"a list":            `[[1, 2, 3].map(x, [x, x])].map(x, x + x)` + grown,
		"a list of lists":   `[1]` + strings.Repeat(".map(x, [x, x, x, x])", 16),
		"a list of objects": `[1]` + strings.Repeat(`.map(x, {"a": x, "b": x, "c": x})`, 16),
		"texts":             `[system.text]` + grown,
		"lists":             `[system.list]` + grown,
		"lists, compared":   `[system.list]` + grown + `.all(x, x == x)`,
	} {
		expression, err := language.Limited(text, Dynamic, CostLimit)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		costs := &CostBudget{left: 1 << 60}
		_, err = expression.Eval(&Scope{System: Facts{"text": strings.Repeat("a", 1000), "list": numbers()[:300]}, CostBudget: costs})
		if err == nil || !strings.Contains(err.Error(), "takes too long") {
			t.Errorf("%s: got %v, want that it takes too long", name, err)
		}
		if cost := uint64(1<<60) - costs.left; cost > 4*CostLimit {
			t.Errorf("%s: it has cost %d", name, cost)
		}
	}
}

// TestWhatIsSmallIsCheap: weights must not make usual rules dear.
func TestWhatIsSmallIsCheap(t *testing.T) {
	language := toyLanguage(t, Schema{Open: true})
	many := make([]any, 10_000)
	for i := range many {
		many[i] = map[string]any{"index": "logs-2026", "shard": "0", "node": "node-17", "state": "STARTED", "primary": true}
	}
	for text, most := range map[string]uint64{
		`system.short.size() == 3`:                                                100,
		`member.id in ["a", "b", "c"]`:                                            100,
		`system.states.all(s, s.ok || s.name != member.id)`:                       200,
		`system.many.filter(s, s.node == member.id && s.primary).size() == 0`:     200_000,
		`system.many.filter(s, s.node == "node-17" && s.state != "x").size() > 0`: 500_000,
	} {
		expression, err := language.Expression(text, Bool)
		if err != nil {
			t.Fatal(text, err)
		}
		facts, costs := answers(), &CostBudget{left: 1 << 60}
		facts["many"] = many
		if _, err := expression.Eval(&Scope{System: facts, Member: "db-0", CostBudget: costs}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if cost := uint64(1<<60) - costs.left; cost > most {
			t.Errorf("%s costs %d, want %d at most", text, cost, most)
		}
	}
}
