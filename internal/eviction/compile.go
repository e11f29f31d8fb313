package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

const (
	// DefaultMaxAge is the API's default, for policies that were made without it.
	DefaultMaxAge = 10 * time.Second
	defaultID     = "pod.name"
)

// Compile checks and compiles a policy. Roles are the built-in ones; declared is what the kind of the policy's system brings.
func Compile(spec *v1alpha1.EvictionPolicySpec, roles []v1alpha1.Role, declared Declaration) (*Policy, []Problem) {
	c := &compiler{declared: declared}
	policy := &Policy{kind: declared.Kind, hosts: declared.Hosts, maxAge: cmp.Or(spec.Evidence.MaxAge.Duration, DefaultMaxAge), suspended: spec.Suspend, mostReplaced: mostReplaced(spec.Repair)}
	c.system(spec)
	own := c.ownRoles(spec.Roles)
	for i := range spec.Members {
		c.member(policy, spec, i, c.roleNamed(spec.Members[i].Role, own, roles))
	}
	c.nodeLock(spec)
	c.orderOfRoles(spec)
	policy.settleReady()
	policy.problems = c.problems
	return policy, c.problems
}

type compiler struct {
	declared Declaration
	language *expression.Language
	text     int // of expressions, as textLimit counts it
	problems []Problem
	builtIn  map[string]*role
}

func (c *compiler) report(path, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) system(spec *v1alpha1.EvictionPolicySpec) {
	if c.declared.Kind == "" {
		c.report("spec.system", "set exactly one kind of system")
	}
	c.within("spec.evidence.maxAge", spec.Evidence.MaxAge.Duration, v1alpha1.MinMaxAge, v1alpha1.MaxMaxAge)
	c.within("spec.evidence.timeout", spec.Evidence.Timeout.Duration, v1alpha1.MinTimeout, v1alpha1.MaxTimeout)
	language, err := expression.NewLanguage(c.declared.Schema)
	if err != nil {
		c.report("spec.system", "%s", err)
		return
	}
	c.language = language
	c.texts(c.declared.Texts)
}

// within: what the schema says holds for policies from before it as well. Zero stands for the default.
func (c *compiler) within(path string, d, least, most time.Duration) {
	if d != 0 && (d < least || d > most) {
		c.report(path, "it is %s, and must be from %s to %s", d, least, most)
	}
}

func (c *compiler) ownRoles(declared []v1alpha1.Role) map[string]*role {
	own := map[string]*role{}
	for i := range declared {
		path := fmt.Sprintf("spec.roles[%d]", i)
		if own[declared[i].Name] != nil {
			c.report(path+".name", "another role of the policy has this name")
		}
		own[declared[i].Name] = c.role(path, &declared[i])
	}
	return own
}

// roleNamed prefers the policy's own role. Built-in roles are compiled when they are first used.
func (c *compiler) roleNamed(name string, own map[string]*role, builtIn []v1alpha1.Role) *role {
	if own[name] != nil {
		return own[name]
	}
	if c.builtIn[name] != nil {
		return c.builtIn[name]
	}
	at := slices.IndexFunc(builtIn, func(r v1alpha1.Role) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	if c.builtIn == nil {
		c.builtIn = map[string]*role{}
	}
	c.builtIn[name] = c.role(fmt.Sprintf("role %q", name), &builtIn[at])
	return c.builtIn[name]
}

func (c *compiler) member(policy *Policy, spec *v1alpha1.EvictionPolicySpec, index int, role *role) {
	declared := &spec.Members[index]
	path := fmt.Sprintf("spec.members[%d]", index)
	if role == nil {
		c.report(path+".role", "there is no role %q: `usher roles` lists the built-in ones, spec.roles holds the policy's own", declared.Role)
	}
	id := c.expression(path+".id", cmp.Or(declared.ID, defaultID), expression.String, expression.IDLimit)
	if id != nil && !id.NamesOnly("pod") {
		c.report(path+".id", "it may use pod only")
	}
	selector, err := metav1.LabelSelectorAsSelector(&declared.Selector)
	if err == nil && selector.Empty() {
		err = fmt.Errorf("it must not be empty: it would select every pod of the namespace")
	}
	if err != nil {
		c.report(path+".selector", "%s", err)
		policy.blind = true
		policy.blindLoad = policy.blindLoad || declared.Leaves == v1alpha1.LeavesLoad
		return
	}
	if declared.Leaves == v1alpha1.LeavesLoad && declared.OnNodePressure == v1alpha1.PressureLastResort {
		c.report(path+".onNodePressure", "it must not be LastResort where leaves is Load: the pod stays on its node, come what may")
	}
	if declared.EmptyOn == v1alpha1.EmptyOnCordon && declared.Leaves != v1alpha1.LeavesLoad {
		c.report(path+".emptyOn", "Cordon needs leaves: Load: a pod that leaves its node is evicted by who drains it")
	}
	policy.entries = append(policy.entries, entry{
		index: index, selector: selector, id: id, role: role,
		deletes: declared.Deletes, ownerFree: declared.OwnerDeletes == v1alpha1.DeleteAllow, controllers: declared.Controllers,
		leavesAfter: snapshot.RolesBefore(spec, index), nodeLock: nodeLockOf(spec.NodeLock, declared.Role), load: declared.Leaves == v1alpha1.LeavesLoad,
		cordon:      declared.Leaves == v1alpha1.LeavesLoad && declared.EmptyOn == v1alpha1.EmptyOnCordon,
		patch:       c.provider(path+".provider", declared.Provider, role),
		memberSet:   declared.Provider != nil && declared.Provider.MemberSet != nil,
		maintained:  maintained(declared.Provider),
		tolerations: cmp.Or(declared.Tolerations, v1alpha1.TolerationsKeepOwn),
	})
}

func maintained(p *v1alpha1.Provider) bool {
	return p != nil && p.MemberSet != nil && p.MemberSet.Maintenance == v1alpha1.MaintenanceManaged
}

func (c *compiler) expression(path, text string, want expression.Type, limit uint64) *expression.Expression {
	if !c.compilable(path, text, 1) {
		return nil
	}
	expression, err := c.language.Limited(text, want, limit)
	if err != nil {
		c.report(path, "%s", err)
	}
	return expression
}

func (c *compiler) template(path, text string) *expression.Template {
	if !c.compilable(path, text, strings.Count(text, "{{")) {
		return nil
	}
	if strings.TrimSpace(text) == "" {
		c.report(path, "it must not be empty")
	}
	template, err := c.language.Template(text)
	if err != nil {
		c.report(path, "%s", err)
	}
	return template
}

// compilable ends before a policy of megabytes keeps all clients waiting that write one.
func (c *compiler) compilable(path, text string, expressions int) bool {
	if c.language == nil || c.text > expression.TextLimit {
		return false
	}
	c.text += len(text) + expressions*expression.TextOverhead
	if c.text > expression.TextLimit {
		c.report(path, "the policy's expressions are too long altogether: from here on they are not read; use fewer rules, or several policies")
	}
	return c.text <= expression.TextLimit
}
