package expression

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/snapshot"
)

func toyScope() *Scope {
	return &Scope{
		Now: noon,
		Pod: &snapshot.Pod{
			Namespace: "shop", Name: "db-0", UID: "u0", Node: "node-a", Labels: map[string]string{"app": "db"},
			Owner: snapshot.Owner{Kind: "StatefulSet", Name: "db"}, Phase: "Running", Ready: true, Created: noon.Add(-time.Hour),
		},
		Member: "db-0", Role: "toy",
		Facts: Facts{
			"drained": true, "shards": []string{"s1", "s2", "s3", "s4", "s5"}, "lag": int64(3), "load": 0.5,
			"seen": noon.Add(-time.Minute), "extra": map[string]any{"count": 2.0, "names": []any{"a", "b"}},
		},
		System:  Facts{"leader": "db-1", "healthy": true},
		Leaving: []string{"db-2"},
	}
}

func toyLanguage(t testing.TB, schema Schema) *Language {
	t.Helper()
	language, err := NewLanguage(schema)
	if err != nil {
		t.Fatal(err)
	}
	return language
}

func TestEval(t *testing.T) {
	for text, want := range map[string]any{
		`member.drained && system.leader != member.id`: true,
		`member.lag + 1`:          int64(4),
		`member.lag > 2.5`:        true,
		`member.load < 1`:         true,
		`member.extra.count == 2`: true,
		`member.extra.count > 1 && 3 > member.extra.count`: true,
		`member.extra.names.exists(n, n == "b")`:           true,
		`has(member.extra.nothing)`:                        false,
		`has(system.quorum)`:                               false,
		`!has(system.quorum) || system.quorum > 2`:         true,
		`size(member.shards)`:                              int64(5),
		`now - member.seen > duration("30s")`:              true,
		`now - pod.created`:                                time.Hour,
		`member.seen`:                                      noon.Add(-time.Minute),
		`pod.name.split("-")[1]`:                           "0",
		`pod.labels["app"] + pod.labels.app`:               "dbdb",
		`node.present`:                                     false,
		`pod.ownerKind + "/" + pod.ownerName`:              "StatefulSet/db",
		`leaving.exists(l, l == "db-2")`:                   true,
		`member.role`:                                      "toy",
		`pod.hostname`:                                     "db-0",
		`math.greatest(member.lag, 7)`:                     int64(7),
		`null`:                                             nil,
		`{"a": [1, 2]}`:                                    map[string]any{"a": []any{int64(1), int64(2)}},
	} {
		expression, err := toyLanguage(t, toySchema).Expression(text, Dynamic)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := expression.Eval(toyScope())
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestEvalOfWhatIsNotKnown(t *testing.T) {
	for text, want := range map[string]string{
		`system.quorum > 1`:            "system.quorum",
		`member.extra.nothing == 1`:    "member.extra.nothing",
		`node.zone == "a"`:             "node.zone",
		`pod.ip != ""`:                 "pod.ip",
		`pod.labels["tier"] == "x"`:    "tier",
		`member.drained && node.ready`: "node.ready",
	} {
		expression, err := toyLanguage(t, toySchema).Expression(text, Bool)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		value, err := expression.Eval(toyScope())
		missing, ok := errors.AsType[*MissingError](err)
		if !ok || missing.Fact != want {
			t.Errorf("%s: got %v, %v; want that %s is missing", text, value, err, want)
		}
	}
}

func TestEvalEnds(t *testing.T) {
	big := make([]any, 100_000)
	for i := range big {
		big[i] = fmt.Sprint(i)
	}
	scope := toyScope()
	scope.Facts["extra"] = big
	expression, err := toyLanguage(t, toySchema).Expression(`member.extra.all(a, member.extra.exists(b, a == b))`, Bool)
	if err != nil {
		t.Fatal(err)
	}
	_, err = expression.Eval(scope)
	if err == nil || !strings.Contains(err.Error(), "takes too long") {
		t.Errorf("got %v, want that it takes too long", err)
	}
}

func TestEvalOfAnotherType(t *testing.T) {
	scope := toyScope()
	scope.Facts["drained"] = "yes"
	for _, text := range []string{`member.drained`, `member.drained && true`} {
		expression, err := toyLanguage(t, toySchema).Expression(text, Bool)
		if err != nil {
			t.Fatal(err)
		}
		if value, err := expression.Eval(scope); err == nil {
			t.Errorf("%s: got %v, want an error: the fact is no bool", text, value)
		}
	}
}

func TestMistakesInExpressions(t *testing.T) {
	for text, want := range map[string]string{
		`member.drianed`:       "there is no fact 'drianed' (at character 7)",
		`system.shards > 1`:    "there is no fact 'shards' (at character 7)",
		`members.drained`:      "there is no 'members' (did you mean 'member'?): expressions speak of member, system, pod, node, here, leaving, unready, preparing and now (at character 1)",
		`member.lag`:           "the value is of type int and must be of type bool",
		`member.lag > "a"`:     "found no matching overload for '_>_' applied to '(int, string)' (at character 12)",
		`member.drained &&`:    "Syntax error",
		`"a".replace("", "a")`: "there is no 'replace'",
		`"%s".format([1])`:     "there is no 'format'",
		`member.extra.all(a, member.extra.all(b, member.extra.all(c, a == b && b == c)))`: "the expression may take too long",
		`pod{name: "x"}.name == "x"`:                                 "",
		`[1]` + strings.Repeat(".map(x, [x, x])", 17) + ` == []`:     "the expression has 17 loops",
		`["a", "b"].join(pod.name) == ""`:                            "what join puts between entries must be written out",
		`["a", "b"].join("` + strings.Repeat("-", 17) + `") == ""`:   "in 16 characters at most",
		strings.Repeat("[", 80) + strings.Repeat("]", 80) + ` == []`: "recursion",
	} {
		_, err := toyLanguage(t, toySchema).Expression(text, Bool)
		if text == `pod{name: "x"}.name == "x"` {
			continue // refused at evaluation
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestOpenSchema(t *testing.T) {
	expression, err := toyLanguage(t, Schema{Open: true}).Expression(`member.anything.at.all == 3 && member.id == "db-0"`, Bool)
	if err != nil {
		t.Fatal(err)
	}
	scope := toyScope()
	scope.Facts = Facts{"anything": map[string]any{"at": map[string]any{"all": 3.0}}}
	if value, err := expression.Eval(scope); value != true {
		t.Errorf("got %v, %v", value, err)
	}
}

func BenchmarkEval(b *testing.B) {
	expression, err := toyLanguage(b, toySchema).Expression(`member.drained && system.leader != member.id && member.lag < 10`, Bool)
	if err != nil {
		b.Fatal(err)
	}
	variables := toyScope().Variables()
	for b.Loop() {
		if _, err := expression.EvalWith(variables, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvalToTheLimit(b *testing.B) {
	big := make([]any, 2000)
	for i := range big {
		big[i] = fmt.Sprint("a string of a length that ids have ", i)
	}
	scope := toyScope()
	scope.Facts["extra"] = big
	expression, err := toyLanguage(b, toySchema).Expression(`member.extra.all(a, member.extra.exists(b, a == b))`, Bool)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := expression.Eval(scope); err == nil {
			b.Fatal("it ends before the limit")
		}
	}
}

func TestAnnotationsOfTheNodeAreAskedForByKeysThatAreWrittenOut(t *testing.T) {
	language, err := NewLanguage(Schema{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`node.annotations.all(k, k != "")`, `size(node.annotations) > 0`, `node.annotations[pod.name] == ""`, `pod.name in node.annotations`,
		`node.annotations == pod.annotations`, `node.annotations["a" + "b"] == ""`, `has(node.annotations)`,
	} {
		if _, err := language.Expression(text, Bool); !errors.Is(err, errAnnotationKeys) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Of a pod that is not there only that it is deleted may be known, and what names nothing else of it can be asked.
func TestNamesAllBut(t *testing.T) {
	language := toyLanguage(t, toySchema)
	for text, want := range map[string]bool{
		`pod.deleted`:                    false,
		`!pod.deleted || member.lag > 1`: false,
		`member.drained`:                 false,
		`pod.deleted && pod.ready`:       true,
		`has(pod.node) || pod.deleted`:   true,
		`pod.labels.deleted == "x"`:      true,
		`[pod].size() == 1`:              true,
	} {
		e, err := language.Expression(text, Bool)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.NamesAllBut(PodVariable, DeletedFact); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	for deleted, want := range map[bool]any{true: true, false: nil} {
		e, err := language.Expression(`pod.deleted`, Bool)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Eval(&Scope{Deleted: deleted})
		if got != want || (err == nil) != deleted {
			t.Errorf("deleted: %t: it is %v, %v", deleted, got, err)
		}
	}
}
