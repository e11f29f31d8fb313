package eviction

import (
	"fmt"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"

	"usher.sh/usher/internal/expression"
)

// numbers is an answer with a list that is longer than what estimates assume.
func numbers() []any {
	list := make([]any, 5_000)
	for i := range list {
		list[i] = float64(i)
	}
	return list
}

// dear is world with a store that has so many rules of an expression, and what they say.
func dear(t *testing.T, rules int, rule, message string) Input {
	t.Helper()
	in, problems := tooDear(t, rules, rule, message)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return in
}

// tooDear is dear for what is refused when it is written, and was written all the same.
func tooDear(t *testing.T, rules int, rule, message string) (Input, []Problem) {
	t.Helper()
	in, spec := world(t), toySpec()
	role := toyRoles()[0]
	role.Evict.Rules, role.Evict.Prepare = nil, nil
	for i := range rules {
		role.Evict.Rules = append(role.Evict.Rules, v1alpha1.Rule{
			Name: fmt.Sprintf("r%d", i), Reason: "Dear", Expression: rule, Message: message, Remedy: message,
		})
	}
	spec.Roles = []v1alpha1.Role{role}
	policy, problems := Compile(spec, nil, Declaration{Kind: "etcd", Schema: expression.Schema{Open: true}, Steps: toySteps})
	policy.problems = nil
	in.Policies[0].Policy = policy
	in.Evidence.Members["m-s0"]["l"] = numbers()
	return in, storeOnly(problems)
}

// storeOnly leaves out what is said of the world's other roles, which are not there.
func storeOnly(problems []Problem) []Problem {
	var own []Problem
	for _, p := range problems {
		if strings.HasPrefix(p.Path, "spec.roles") {
			own = append(own, p)
		}
	}
	return own
}

const (
	pairs  = "member.l.filter(x, member.l.exists(y, y + x < 0.0)).size()"
	once   = "{{member.l.filter(x, x < 0.0).size()}} "
	passes = "member.l.all(x, x >= 0.0)"
)

func TestVerdictEndsByCounting(t *testing.T) {
	for name, test := range map[string]struct {
		rules       int
		rule, words string
		failed      int // rules without an answer
		most        uint64
	}{
		"cheap rules":             {rules: 3, rule: "true", words: "{{member.id}}", failed: 0, most: 100},
		"rules that are dear":     {rules: 12, rule: pairs + " == 0", words: "{{member.id}}", failed: 12, most: verdictEffort + expression.CostLimit},
		"messages that are dear":  {rules: 1, rule: "false", words: strings.Repeat(once, 40), failed: 0, most: wordsEffort + expression.WordsLimit},
		"a message that is dear":  {rules: 1, rule: "false", words: "{{0" + strings.Repeat(" + member.l.filter(x, x < 0.0).size()", 16) + "}}", failed: 0, most: 3 * expression.WordsLimit},
		"many rules that are not": {rules: 32, rule: passes, words: "{{member.id}}", failed: 0, most: verdictEffort},
	} {
		t.Run(name, func(t *testing.T) {
			in := dear(t, test.rules, test.rule, test.words)
			in.CostBudget = expression.NewCostBudget(1<<60, nil)
			verdict := Judge(in)
			// The last evaluation that is begun may go on to its own limit.
			if cost := uint64(1<<60) - in.CostBudget.Left(); cost > test.most {
				t.Errorf("the verdict has cost %d", cost)
			}
			failed := 0
			for _, b := range verdict.Blockers {
				if b.Reason == RuleFailed {
					failed++
				}
			}
			if failed != test.failed {
				t.Errorf("%d rules have no answer, want %d: %+v", failed, test.failed, verdict.Blockers)
			}
		})
	}
}

func TestRulesAfterTheLimitSaySo(t *testing.T) {
	blockers := Judge(dear(t, 12, pairs+" == 0", "{{member.id}}")).Blockers
	if last := blockers[len(blockers)-1]; last.Rule != "r11" || !strings.Contains(last.Message, "used up the time for all") {
		t.Errorf("got %+v", last)
	}
}

func TestMessagesAfterTheLimitAreNotKnown(t *testing.T) {
	blockers := Judge(dear(t, 1, "false", strings.Repeat(once, 40))).Blockers
	if len(blockers) != 1 || !strings.HasPrefix(blockers[0].Message, "0 ") || !strings.HasSuffix(blockers[0].Remedy, "(not known)") {
		t.Errorf("got %+v", blockers)
	}
}

// One verdict on this once took ten seconds: each of its 70 values is within the limit of one expression.
func TestManyValuesOfLoopsInLoops(t *testing.T) {
	in, problems := tooDear(t, 1, "false", strings.Repeat("{{"+pairs+"}}", 35))
	if !strings.Contains(fmt.Sprint(problems), "may take too long together") {
		t.Errorf("problems %v", problems)
	}
	in.CostBudget = expression.NewCostBudget(1<<60, nil)
	verdict := Judge(in)
	if cost := uint64(1<<60) - in.CostBudget.Left(); cost > wordsEffort+expression.WordsLimit {
		t.Errorf("the verdict has cost %d", cost)
	}
	if len(verdict.Blockers) != 1 || !strings.Contains(verdict.Blockers[0].Message, "(not known)") {
		t.Errorf("got %+v", verdict.Blockers)
	}
}

func TestVerdictsOfOneLookShareItsEffort(t *testing.T) {
	in := dear(t, 5, pairs+" == 0", "{{member.id}}")
	in.CostBudget = expression.NewCostBudget(2*verdictEffort, nil)
	for range 3 {
		Judge(in)
	}
	if !in.CostBudget.Exhausted() {
		t.Errorf("%d are left after three verdicts", in.CostBudget.Left())
	}
	in = world(t)
	in.CostBudget = &expression.CostBudget{}
	if verdict := Judge(in); verdict.Answer != Blocked {
		t.Errorf("a verdict for which nothing is left is %s", verdict.Answer)
	}
}

func TestRolesThatAreTooDearAreRefused(t *testing.T) {
	role := func(rules int, rule, message string) v1alpha1.Role {
		dear := toyRoles()[0]
		dear.Evict.Rules, dear.Evict.Prepare = nil, nil
		for i := range rules {
			dear.Evict.Rules = append(dear.Evict.Rules, v1alpha1.Rule{Name: fmt.Sprintf("r%d", i), Reason: "Dear", Expression: rule, Message: message})
		}
		return dear
	}
	for name, test := range map[string]struct {
		role v1alpha1.Role
		want string
	}{
		"a rule with a loop in a loop":  {role: role(1, pairs+" == 0", "m")},
		"32 of them":                    {role: role(32, pairs+" == 0", "m"), want: "its expressions may take too long together"},
		"a message with a loop":         {role: role(32, "false", once)},
		"a message of loops in loops":   {role: role(1, "false", strings.Repeat("{{"+pairs+"}}", 20)), want: "its messages may take too long together"},
		"a rule that no facts shorten":  {role: role(1, constant(5)+" == []", "m"), want: "the expression takes too long"},
		"a message that they do not":    {role: role(1, "false", "{{"+constant(4)+"}}"), want: "the expression takes too long"},
		"a long rule that ends quickly": {role: role(1, constant(2)+" == []", "m")},
	} {
		t.Run(name, func(t *testing.T) {
			spec := toySpec()
			spec.Roles = []v1alpha1.Role{test.role}
			_, problems := Compile(spec, nil, Declaration{Kind: "etcd", Schema: expression.Schema{Open: true}, Steps: toySteps})
			said := fmt.Sprint(storeOnly(problems))
			if test.want == "" && said != "[]" || !strings.Contains(said, test.want) {
				t.Errorf("got %s, want %q", said, test.want)
			}
		})
	}
}

// constant is a loop over literal lists, depth times within itself.
func constant(depth int) string {
	const list = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]"
	if depth == 0 {
		return "0"
	}
	return fmt.Sprintf("%s.map(v%d, %s)", list, depth, constant(depth-1))
}

func TestPoliciesThatAreTooLongAreRefused(t *testing.T) {
	spec := toySpec()
	for r := range 16 {
		role := toyRoles()[0]
		role.Name = fmt.Sprintf("r%d", r)
		for i := range 32 {
			role.Replace.Rules = append(role.Replace.Rules, v1alpha1.Rule{
				Name: fmt.Sprintf("r%d", i), Reason: "Long", Expression: "true", Message: strings.Repeat("{{1}}", 400),
			})
		}
		spec.Roles = append(spec.Roles, role)
	}
	_, problems := Compile(spec, toyRoles(), toyDeclared)
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "too long altogether") {
		t.Errorf("got %v", problems)
	}
}
