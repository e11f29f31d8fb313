package notice

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// The bounds of a configuration.
const (
	mostRules    = 100
	mostMatchers = 20
	mostPattern  = 1000 // bytes of a regular expression
	mostHook     = 2048
	mostName     = 63
	mostMargin   = 10 * time.Minute
)

// file is the configuration as it is written.
type file struct {
	Drain       v1alpha1.MaintenanceDrain       `json:"drain"`
	AtDeadline  v1alpha1.DeadlineAction         `json:"atDeadline"`
	Concurrency v1alpha1.MaintenanceConcurrency `json:"concurrency"`
	Margin      string                          `json:"margin"`
	BeginBefore string                          `json:"beginBefore"`
	MachineHold string                          `json:"machineHold"`
	Kinds       map[string]string               `json:"kinds"`
	Rules       []ruleFile                      `json:"rules"`
}

type ruleFile struct {
	Name           string         `json:"name"`
	Alert          *alertFile     `json:"alert"`
	Condition      *conditionFile `json:"condition"`
	Taint          *taintFile     `json:"taint"`
	Kind           string         `json:"kind"`
	Action         string         `json:"action"`
	EffectiveAfter string         `json:"effectiveAfter"`
	Hook           string         `json:"hook"`
	SetTaint       *taintFile     `json:"setTaint"`
	MatchAll       string         `json:"matchAll"`
}

type alertFile struct {
	Matchers  []string `json:"matchers"`
	NodeLabel string   `json:"nodeLabel"`
}

type conditionFile struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
	For     string `json:"for"`
}

type taintFile struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// parser collects all that is wrong, each in a sentence that begins with its field.
type parser struct{ wrong []error }

func (p *parser) fail(field, format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Errorf(field+": "+format, args...))
}

// Parse reads a configuration. Its error has a sentence for each mistake. An empty one is what the defaults are.
func Parse(written string) (*Config, error) {
	var f file
	asJSON, err := yaml.YAMLToJSONStrict([]byte(written))
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %s", text.Line(err.Error()))
	}
	unknown, err := sigsjson.UnmarshalStrict(asJSON, &f)
	if err != nil {
		return nil, anotherType(err)
	}
	p := &parser{}
	for _, each := range unknown {
		p.wrong = append(p.wrong, fmt.Errorf("%s: there is no such field", text.Line(each.Error())))
	}
	c := p.config(&f)
	if len(p.wrong) > 0 {
		return nil, errors.Join(p.wrong...)
	}
	return c, nil
}

// anotherType says which field has a value of another type than it may have.
func anotherType(err error) error {
	var mistyped *json.UnmarshalTypeError
	if !errors.As(err, &mistyped) || mistyped.Field == "" {
		return fmt.Errorf("it is not an object with the fields of this configuration: %s", text.Line(err.Error()))
	}
	wanted := map[reflect.Kind]string{reflect.String: "a string, in quotes where YAML takes it for something else", reflect.Int32: "a number", reflect.Slice: "a list"}[mistyped.Type.Kind()]
	return fmt.Errorf("%s: it is of the type %s, and has to be %s", text.Line(mistyped.Field), mistyped.Value, cmp.Or(wanted, "an object"))
}

func (p *parser) config(f *file) *Config {
	c := Default()
	one(p, "drain.unmanagedPods", f.Drain.UnmanagedPods, &c.Drain.UnmanagedPods, v1alpha1.PodsBlock, v1alpha1.PodsEvict)
	one(p, "drain.emptyDirPods", f.Drain.EmptyDirPods, &c.Drain.EmptyDirPods, v1alpha1.PodsBlock, v1alpha1.PodsEvict)
	one(p, "drain.daemonSetPods", f.Drain.DaemonSetPods, &c.Drain.DaemonSetPods, v1alpha1.DaemonSetsIgnore, v1alpha1.DaemonSetsEvict)
	one(p, "drain.surge", f.Drain.Surge, &c.Drain.Surge, v1alpha1.SurgeAuto, v1alpha1.SurgeNever, v1alpha1.SurgeAlways)
	one(p, "atDeadline", f.AtDeadline, &c.AtDeadline, v1alpha1.DeadlineStop, v1alpha1.DeadlineDeletePods)
	p.limit("concurrency.nodes", f.Concurrency.Nodes, &c.Concurrency.Nodes)
	p.limit("concurrency.zones", f.Concurrency.Zones, &c.Concurrency.Zones)
	p.duration("margin", f.Margin, &c.Margin, mostMargin)
	p.duration("beginBefore", f.BeginBefore, &c.BeginBefore, 0)
	p.duration("machineHold", f.MachineHold, &c.MachineHold, 0)
	for _, kind := range sortedKeys(f.Kinds) {
		var known Kind
		one(p, "kinds", Kind(kind), &known, kinds...)
		action := c.Kinds[known]
		one(p, "kinds."+kind, Action(f.Kinds[kind]), &action, Drain, Cordon, Report)
		c.Kinds[known] = action
	}
	if len(f.Rules) > mostRules {
		p.fail("rules", "there are %d, and %d may be", len(f.Rules), mostRules)
		return c
	}
	for i := range f.Rules {
		c.Rules = append(c.Rules, p.rule(fmt.Sprintf("rules[%d]", i), &f.Rules[i], c.Rules))
	}
	return c
}

// one takes one of several values; "" leaves the default.
func one[S ~string](p *parser, field string, value S, into *S, allowed ...S) {
	switch {
	case value == "":
	case slices.Contains(allowed, value):
		*into = value
	default:
		p.fail(field, "%q is none of %s", text.Cut(string(value), mostName), strings.Join(nameList(allowed), ", "))
	}
}

func (p *parser) limit(field string, value int32, into *int32) {
	switch {
	case value < 0:
		p.fail(field, "%d is below 1", value)
	case value > 0:
		*into = value
	}
}

// duration takes a duration up to most, where there is a most; "" leaves the default.
func (p *parser) duration(field, value string, into *time.Duration, most time.Duration) {
	if value == "" {
		return
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		p.fail(field, "%q is no duration: write 90s, 5m or 1h30m", text.Cut(value, mostName))
	case d < 0:
		p.fail(field, "%s is below 0", d)
	case most > 0 && d > most:
		p.fail(field, "%s is more than %s", d, most)
	default:
		*into = d
	}
}

var ruleName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func (p *parser) rule(field string, f *ruleFile, before []Rule) Rule {
	r := Rule{Name: f.Name, Kind: Problem, Hook: f.Hook}
	switch {
	case f.Name == "":
		p.fail(field+".name", "it is missing: by its name it is known which notices are a rule's")
	case len(f.Name) > mostName || !ruleName.MatchString(f.Name):
		p.fail(field+".name", "%q is none: write lower case letters, digits and dashes, %d at most", text.Cut(f.Name, mostName), mostName)
	case slices.ContainsFunc(before, func(o Rule) bool { return o.Name == f.Name }):
		p.fail(field+".name", "%q is the name of an earlier rule", f.Name)
	}
	one(p, field+".kind", Kind(f.Kind), &r.Kind, kinds...)
	one(p, field+".action", Action(f.Action), &r.Action, Drain, Cordon, SetTaint, CallHook, Report)
	p.duration(field+".effectiveAfter", f.EffectiveAfter, &r.EffectiveAfter, 0)
	p.hook(field, f)
	r.Sets = p.setTaint(field+".setTaint", f)
	p.subject(field, f, &r)
	if f.MatchAll != "" && f.MatchAll != "Allow" {
		p.fail(field+".matchAll", "%q is not Allow, which is all that it may be", text.Cut(f.MatchAll, mostName))
	}
	return r
}

func (p *parser) hook(field string, f *ruleFile) {
	acts := []Action{Drain, Cordon, SetTaint, CallHook}
	switch {
	case f.Hook == "" && f.Action == string(CallHook):
		p.fail(field+".hook", "it is missing: action: Hook calls it")
	case f.Hook == "":
	case len(f.Hook) > mostHook || !strings.HasPrefix(f.Hook, "http://") && !strings.HasPrefix(f.Hook, "https://"):
		p.fail(field+".hook", "it is no URL of http or https with %d bytes at most", mostHook)
	case !slices.Contains(acts, Action(f.Action)):
		p.fail(field+".hook", "it is called once the action is done, so it goes with action: %s", strings.Join(nameList(acts), ", "))
	}
}

// What Kubernetes says a taint may be. Taints of these are other clients': Kubernetes', Usher's own and those of autoscalers, which act by them.
var (
	taintKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)
	taintValue = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)
	othersKey  = regexp.MustCompile(`(^|[.])(kubernetes[.]io|(x-)?k8s[.]io|usher[.]sh|karpenter[.]sh)/|^(ToBeDeletedBy|DeletionCandidateOf)ClusterAutoscaler$`)
)

// setTaint reads the taint that a rule sets.
func (p *parser) setTaint(field string, f *ruleFile) *v1alpha1.MaintenanceTaint {
	const mostKey = 316
	written := f.SetTaint
	switch {
	case written == nil && f.Action == string(SetTaint):
		p.fail(field, "it is missing: action: Taint sets it")
		return nil
	case written == nil:
		return nil
	case f.Action != string(SetTaint):
		p.fail(field, "it goes with action: Taint")
	case len(written.Key) > mostKey || !taintKey.MatchString(written.Key):
		p.fail(field+".key", "%q is not the key of a taint: write it as example.com/disk-fails", text.Cut(written.Key, mostName))
	case othersKey.MatchString(written.Key):
		p.fail(field+".key", "%q is another client's: Kubernetes, autoscalers and Usher itself set taints of kubernetes.io, k8s.io, karpenter.sh and usher.sh", text.Cut(written.Key, mostName))
	case len(written.Value) > mostName || !taintValue.MatchString(written.Value):
		p.fail(field+".value", "%q is not the value of a taint: letters, digits, dashes, dots and underscores, %d at most", text.Cut(written.Value, mostName), mostName)
	}
	sets := &v1alpha1.MaintenanceTaint{Key: written.Key, Value: written.Value, Effect: v1alpha1.TaintNoSchedule}
	one(p, field+".effect", v1alpha1.TaintEffect(written.Effect), &sets.Effect, v1alpha1.TaintNoSchedule, v1alpha1.TaintPreferNoSchedule, v1alpha1.TaintNoExecute)
	return sets
}

// subject reads what a rule matches. One that matches everything has to say so.
func (p *parser) subject(field string, f *ruleFile, r *Rule) {
	set, all := 0, ""
	if f.Alert != nil {
		set++
		r.Alert, all = p.alert(field+".alert", f.Alert)
	}
	if f.Condition != nil {
		set++
		r.Condition, all = p.condition(field+".condition", f.Condition)
	}
	if f.Taint != nil {
		set++
		r.Taint, all = p.taint(field+".taint", f.Taint)
	}
	switch {
	case set != 1:
		p.fail(field, "it has %d of alert, condition and taint, and needs exactly one", set)
	case all != "" && f.MatchAll == "":
		p.fail(field, "%s; where that is meant, set matchAll: Allow", all)
	}
}

func (p *parser) alert(field string, f *alertFile) (rule *AlertRule, all string) {
	rule = &AlertRule{NodeLabel: cmp.Or(f.NodeLabel, "node")}
	if !labelName.MatchString(rule.NodeLabel) {
		p.fail(field+".nodeLabel", "%q is not the name of a label", text.Cut(f.NodeLabel, mostName))
	}
	if len(f.Matchers) > mostMatchers {
		p.fail(field+".matchers", "there are %d, and %d may be", len(f.Matchers), mostMatchers)
		return rule, ""
	}
	wrong := len(p.wrong)
	for i, written := range f.Matchers {
		m, err := parseMatcher(written)
		if err != nil {
			p.fail(fmt.Sprintf("%s.matchers[%d]", field, i), "%w", err)
			continue
		}
		rule.Matchers = append(rule.Matchers, m)
	}
	if len(p.wrong) == wrong && !slices.ContainsFunc(rule.Matchers, func(m Matcher) bool { return !m.matches("") }) {
		all = "it matches alerts without any label, and so may match every alert: add a matcher that an empty value does not match, as alertname=\"NodeDying\""
	}
	return rule, all
}

// healthy are the conditions of a node that is well, by type.
var healthy = map[string]string{
	string(corev1.NodeReady): "True", string(corev1.NodeMemoryPressure): "False", string(corev1.NodeDiskPressure): "False",
	string(corev1.NodePIDPressure): "False", string(corev1.NodeNetworkUnavailable): "False",
}

func (p *parser) condition(field string, f *conditionFile) (rule *ConditionRule, all string) {
	rule = &ConditionRule{Type: f.Type}
	if f.Type == "" {
		p.fail(field+".type", "it is missing: name the type of a condition of nodes, as KernelDeadlock")
	}
	if f.Status == "" {
		p.fail(field+".status", `it is missing: write "True", "False" or Unknown`)
	}
	one(p, field+".status", f.Status, &rule.Status, "True", "False", "Unknown")
	p.duration(field+".for", f.For, &rule.For, 0)
	if f.Message != "" {
		rule.Message = p.pattern(field+".message", f.Message)
	}
	if f.Message != "" && f.Type != string(corev1.NodeReady) {
		p.fail(field+".message", "it goes with type: Ready; of other conditions the manager keeps no messages")
	}
	if f.Message == "" && healthy[f.Type] != "" && healthy[f.Type] == f.Status {
		all = fmt.Sprintf("%s is %s on every node that is well", f.Type, f.Status)
	}
	return rule, all
}

func (p *parser) taint(field string, f *taintFile) (rule *TaintRule, all string) {
	rule = &TaintRule{Key: f.Key, Value: f.Value}
	one(p, field+".effect", f.Effect, &rule.Effect, string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute))
	if f.Key == "" {
		all = "without a key it matches every taint"
	}
	return rule, all
}

func (p *parser) pattern(field, pattern string) *regexp.Regexp {
	if len(pattern) > mostPattern {
		p.fail(field, "it has %d bytes, and may have %d", len(pattern), mostPattern)
		return nil
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		p.fail(field, "it is no regular expression (RE2): %s", text.Line(err.Error()))
	}
	return compiled
}
