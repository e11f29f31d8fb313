package eviction

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/expression"
)

// hostile draws words with what a terminal obeys in them.
func hostile() *rapid.Generator[string] {
	parts := rapid.SampledFrom([]string{"\x1b[2J", "\x1b]0;owned\a", "\u202e", "\u2066", "\u200f", "\u061c", "\u2028", "\u009b1m", "\x9b", "\r", "\n", "\x7f", "word", " ", "ü"})
	return rapid.Custom(func(t *rapid.T) string {
		var s string
		for _, part := range rapid.SliceOfN(parts, 1, 6).Draw(t, "parts") {
			s += part
		}
		return s
	})
}

// What systems answer and what tenants write on their pods stands in answers that kubectl prints as they are.
func TestAnswersArePrintable(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		roles := toyRoles()
		roles[0].Evict.Rules[0].Message = "{{member.id}} of {{system.leader}} has {{member.shards}}\nand more"
		roles[0].Evict.Rules[0].Remedy = "ask {{system.leader}}"
		spec := toySpec()
		spec.Members[0].ID = `pod.annotations["id"]`
		policy, problems := Compile(spec, roles, toyDeclared)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		in := AdmissionInput{Input: world(outer), Verb: VerbEvict, User: "alice", DryRun: rapid.Bool().Draw(t, "dry run")}
		id := rapid.OneOf(hostile(), rapid.Just("m-s0")).Draw(t, "id")
		in.Policies[0].Policy = policy
		in.Pod.Annotations = map[string]string{"id": id}
		if rapid.Bool().Draw(t, "broken glass") {
			in.Pod.Annotations[v1alpha1.BreakGlassAnnotation] = hostile().Draw(t, "why")
		}
		in.Evidence.System["leader"] = hostile().Draw(t, "leader")
		in.Evidence.Members[id] = expression.Facts{"drained": false, "shards": []string{hostile().Draw(t, "shard")}}
		if rapid.Bool().Draw(t, "ask") {
			in.Ask = AskEvict
		}
		got := Admit(in)
		words := append(slices.Clone(got.Warnings), got.Message, got.Note.Message, got.Verdict.BreakGlass, got.Verdict.Member)
		for _, cause := range got.Causes {
			words = append(append(words, strings.Split(cause.Message, "\n")...), cause.Field) // message and remedy
		}
		for _, b := range got.Verdict.Blockers {
			words = append(words, b.Message, b.Remedy)
		}
		for _, said := range words {
			if !text.Printable(said) {
				t.Fatalf("%q is said", said)
			}
		}
	})
}
