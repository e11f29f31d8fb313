package sim_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// TestScenarios runs the files in testdata. Each is a story: `cluster` makes a small
// cluster, one object a line; `drain` drains nodes of it and prints what happens and
// what is left; lines under `drain` are things that others do meanwhile.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("looking for scenarios: %v, %d found", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := &scenario{t: t}
			datadriven.RunTest(t, file, func(_ *testing.T, d *datadriven.TestData) string { return s.do(d) })
		})
	}
}

type scenario struct {
	t     *testing.T
	world *world
	cfg   sim.Config
}

func (s *scenario) do(d *datadriven.TestData) string {
	args := parse(d.CmdArgs)
	switch d.Cmd {
	case "cluster":
		s.world, s.cfg = newWorld(), steady()
		for line := range strings.Lines(d.Input) {
			s.object(strings.Fields(line))
		}
		return ""
	case "drain":
		return s.drain(args, d.Input)
	case "forecast":
		return s.forecast(args)
	}
	s.t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

// steady takes round times: a pod is scheduled after 1 s, runs after 2 s more, is ready
// after 3 s more, and stops within 4 s.
func steady() sim.Config {
	return sim.Config{
		Schedule: after(time.Second), Boot: after(2 * time.Second), Ready: after(3 * time.Second), Stop: after(4 * time.Second),
		Controllers: 10 * time.Millisecond, Budgets: 10 * time.Millisecond,
		Scaler: 15 * time.Second, ScaleDown: time.Minute, Detach: 5 * time.Second, PodGC: 40 * time.Second,
		Binds: templateNode,
	}
}

// options are the words of a line: plain ones and key=value.
type options struct {
	words  []string
	values map[string]string
}

func parse(args []datadriven.CmdArg) options {
	o := options{values: map[string]string{}}
	for _, a := range args {
		if len(a.Vals) == 0 {
			o.words = append(o.words, a.Key)
			continue
		}
		o.values[a.Key] = strings.Join(a.Vals, ",")
	}
	return o
}

func fields(line []string) options {
	o := options{values: map[string]string{}}
	for _, word := range line {
		if key, value, ok := strings.Cut(word, "="); ok {
			o.values[key] = value
			continue
		}
		o.words = append(o.words, word)
	}
	return o
}

func (o options) has(word string) bool {
	return slices.Contains(o.words, word)
}

func (s *scenario) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatalf("reading a number: %v", err)
	}
	return n
}

func (s *scenario) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatalf("reading a duration: %v", err)
	}
	return d
}

// object makes what one line of `cluster` says.
func (s *scenario) object(line []string) {
	o := fields(line[1:])
	name := o.words[0]
	switch kind := line[0]; kind {
	case "node":
		s.world.node(name, o.values["zone"], s.nodeOptions(o))
	case "pod":
		s.volumes(o, s.world.pod(name, o.values["on"], s.podOptions(o)))
	case "deployment", "statefulset", "daemonset", "replicaset", "job":
		s.workload(kind, name, o)
	case "budget":
		s.budget(name, o)
	case "autoscaler":
		s.world.autoscaler(name, int32(s.number(o.values["min"])), int32(s.number(o.values["max"])))
	case "unready":
		p := *s.world.cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: name})
		s.podOptions(options{words: []string{"unready"}})(&p)
		s.world.cluster.SetPod(&p)
	case "fault":
		s.fault(name, o)
	default:
		s.t.Fatalf("unknown object %q", kind)
	}
}

func (s *scenario) workload(kind, name string, o options) {
	kinds := map[string]string{"deployment": "Deployment", "statefulset": "StatefulSet", "daemonset": "DaemonSet", "replicaset": "ReplicaSet", "job": "Job"}
	w := s.world.workload(kinds[kind], name, list(o.values["on"]), s.podOptions(o))
	if n := o.values["replicas"]; n != "" && int(s.number(n)) != len(list(o.values["on"])) {
		s.t.Fatalf("%s: replicas=%s, but on=%s", name, n, o.values["on"])
	}
	for _, p := range s.world.cluster.PodsIn("shop") {
		if strings.HasPrefix(p.Name, name+"-") {
			s.volumes(o, p)
		}
	}
	if o.has("rollout") || o.has("stuck-rollout") {
		changed := *w
		changed.Settled = false
		if o.has("stuck-rollout") {
			changed.RolloutStuck = "its rollout does not go on: ProgressDeadlineExceeded"
		}
		s.world.cluster.SetWorkload(&changed)
	}
	if o.has("orphaned") {
		s.world.cluster.DeleteWorkload(w.UID)
	}
}

func (s *scenario) volumes(o options, p *snapshot.Pod) {
	if kind := o.values["volume"]; kind != "" {
		changed := *p
		s.world.volume(&changed, kind == "shared")
		s.world.cluster.SetPod(&changed)
	}
}

func (s *scenario) nodeOptions(o options) nodeOption {
	return func(n *snapshot.Node) {
		n.Unschedulable = o.has("cordoned")
		if o.has("notready") {
			n.Ready, n.ReadyWhy = false, "Kubelet stopped posting node status."
		}
		if pods := o.values["pods"]; pods != "" {
			n.Allocatable.Pods = s.number(pods)
		}
		if key := o.values["taint"]; key != "" {
			n.Taints = append(n.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
		if by := o.values["drained-by"]; by != "" {
			n.Unschedulable = true
			n.Drain = &snapshot.DrainRecord{
				Drainer: snapshot.Drainer{ID: by, By: by, Beat: s.world.now}, Since: s.world.now, Cordoned: true, State: "draining",
			}
		}
	}
}

func (s *scenario) podOptions(o options) podOption {
	return func(p *snapshot.Pod) {
		p.SpreadHosts, p.Mirror = o.has("spread"), o.has("mirror")
		if o.has("tolerates") {
			p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
		if o.has("emptydir") {
			p.EmptyDirs = []string{"cache"}
		}
		if o.has("unready") {
			p.Ready, p.ReadySince = false, time.Time{}
		}
		for key, value := range o.values {
			s.podValue(p, key, value)
		}
	}
}

func (s *scenario) podValue(p *snapshot.Pod, key, value string) {
	switch key {
	case "grace":
		p.Grace = s.duration(value)
	case "priority":
		p.Priority = int32(s.number(value))
	case "order":
		p.Order = int(s.number(value))
	case "finalizer":
		p.Finalizers = []string{value}
	case "phase":
		p.Phase, p.Ready = corev1.PodPhase(value), false
	case "needs":
		p.NodeSelector = map[string]string{"zone": value}
	case "pinned":
		p.NodeSelector = map[string]string{corev1.LabelHostname: value}
	case "binds":
		p.Labels = map[string]string{"app": p.Labels["app"], nodeNameLabel: value}
	case "cpu":
		p.Requests.MilliCPU = s.number(value)
	}
}

func (s *scenario) budget(name string, o options) {
	app := name
	if of := o.values["of"]; of != "" {
		app = of
	}
	s.world.budget(name, app, func(b *snapshot.Budget) {
		if v := o.values["minAvailable"]; v != "" {
			minAvailable(v)(b)
		}
		if v := o.values["maxUnavailable"]; v != "" {
			maxUnavailable(v)(b)
		}
		b.AlwaysAllow = o.has("always-allow")
	})
}

func (s *scenario) fault(name string, o options) {
	of := func(p *snapshot.Pod) bool { return p.Labels["app"] == o.values["of"] }
	switch f := &s.cfg.Faults; name {
	case "denied":
		f.Deny = func(p *snapshot.Pod) string {
			if of(p) {
				return `admission webhook "guard" denied the request: a backup is running`
			}
			return ""
		}
	case "never-ready":
		f.NeverReady = of
	case "stuck":
		f.Stuck = of
	case "no-scale":
		f.NoScale = true
	case "no-cost":
		f.NoCost = true
	case "keeps-all":
		f.KeepsAll = true
	default:
		s.t.Fatalf("unknown fault %q", name)
	}
}

// request reads the arguments of `drain` and `forecast`.
func (s *scenario) request(o options) drain.Request {
	req := drain.Request{
		Self: snapshot.Drainer{ID: "me", By: "me"}, Started: s.world.now, Surge: drain.SurgeNever,
		DaemonSets: drain.DaemonSetsIgnore, Force: o.has("force"), DeleteEmptyDir: o.has("delete-emptydir-data"),
		DisableEviction: o.has("disable-eviction"), UncordonOnFailure: o.has("uncordon-on-failure"), WaitReplaced: o.has("wait-replaced"),
	}
	for _, word := range o.words {
		if s.world.cluster.Node(word) != nil {
			req.Nodes = append(req.Nodes, word)
		}
	}
	for key, value := range o.values {
		s.requestValue(&req, key, value)
	}
	return req
}

func (s *scenario) requestValue(req *drain.Request, key, value string) {
	switch key {
	case "surge":
		req.Surge = drain.SurgeMode(value)
	case "daemonsets":
		req.DaemonSets = drain.DaemonSetMode(value)
	case "max-parallel":
		req.MaxParallel = int(s.number(value))
	case "max-zones":
		req.MaxZones = int(s.number(value))
	case "deadline":
		req.Deadline = s.world.now.Add(s.duration(value))
	case "at-deadline":
		req.AtDeadline = drain.DeadlineMode(value)
	case "grace":
		grace := s.duration(value)
		req.Grace = &grace
	case "until":
	default:
		s.t.Fatalf("unknown argument %q", key)
	}
}

// drain drains nodes of the cluster; each line of input happens at its time.
func (s *scenario) drain(o options, input string) string {
	req := s.request(o)
	if objections := drain.Objections(s.world.view(), req); len(objections) > 0 {
		return "nothing is changed:\n" + blockers(objections)
	}
	cfg := s.cfg
	cfg.Judge = &req
	d := newDriver(sim.New(s.world.view(), cfg), req, 1)
	wrong := ""
	for line := range strings.Lines(input) {
		at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		wrong += d.run(req.Started.Add(s.duration(at)))
		d.note("-- %s", what)
		s.meanwhile(d, strings.Fields(what))
	}
	until := 30 * time.Minute
	if text := o.values["until"]; text != "" {
		until = s.duration(text)
	}
	wrong += d.run(req.Started.Add(until))
	s.world.cluster, s.world.now = d.sim.Truth().Cluster, d.sim.View().Now
	return s.story(d) + wrong
}

func (s *scenario) meanwhile(d *driver, words []string) {
	c := d.sim.Truth().Cluster
	switch words[0] {
	case "interrupt":
		d.led.End(drain.Interrupted)
	case "kill":
		d.led, d.inFlight = drain.NewLedger(), nil
		d.req.Dead, d.req.Self.ID = map[string]bool{d.req.Self.ID: true}, d.req.Self.ID+"-again"
		d.sim.JudgeAs(d.req)
		d.sim.Relist()
	case "unready", "ready":
		d.sim.Flip(c.PodNamed(snapshot.Key{Namespace: "shop", Name: words[1]}).UID, words[0] == "ready")
	case "delete-node":
		d.sim.DeleteNode(words[1])
	case "lose-node":
		d.sim.SetNodeReady(words[1], false)
	case "uncordon", "cordon":
		d.sim.Cordon(words[1], words[0] == "cordon")
	case "scale":
		for _, w := range c.Workloads() {
			if w.Name == words[1] {
				d.sim.SetReplicas(w.UID, int32(s.number(words[2])))
			}
		}
	default:
		s.t.Fatalf("unknown deed %q", words[0])
	}
}

// story is what happened and how things stand. Signs of life are left out.
func (s *scenario) story(d *driver) string {
	var out strings.Builder
	for _, line := range d.log {
		if !strings.HasSuffix(line, " draining") {
			fmt.Fprintln(&out, line)
		}
	}
	state := string(d.last.Outcome)
	if !d.last.Settled {
		state = "goes on"
	}
	fmt.Fprintf(&out, "%6s  %s\n", d.elapsed().Round(time.Millisecond), state)
	fmt.Fprint(&out, blockers(d.verdict.Blockers()))
	for i := range d.verdict.Pods {
		if s := &d.verdict.Pods[i]; s.State == drain.Staying && s.Note != "DaemonSet pod" {
			fmt.Fprintf(&out, "%s stays: %s\n", s.Pod.Name, s.Note)
		}
	}
	notes := append(slices.Clone(d.verdict.Notes), d.last.Notes...)
	slices.Sort(notes)
	for _, note := range slices.Compact(notes) {
		fmt.Fprintln(&out, "note: "+note)
	}
	wrong := d.sim.Violations()
	if d.last.Settled {
		wrong = append(wrong, d.sim.Leftovers(d.req.Self.ID)...)
	}
	for _, w := range wrong {
		fmt.Fprintln(&out, "WRONG: "+w)
	}
	return out.String()
}

func blockers(all []drain.Blocker) string {
	var out strings.Builder
	for _, b := range all {
		who := b.Pod.Name
		if who == "" {
			who = "node " + b.Node
		}
		dead := ""
		if b.Dead {
			dead = " (for good)"
		}
		fmt.Fprintf(&out, "%s: %s%s: %s\n   remedy: %s\n", who, b.Reason, dead, b.Message, b.Remedy)
	}
	return out.String()
}

// forecast prints the plan of a drain.
func (s *scenario) forecast(o options) string {
	p := sim.Forecast(s.world.view(), s.request(o))
	var out strings.Builder
	for i := range p.Steps {
		step := &p.Steps[i]
		var names []string
		for _, pod := range step.Pods {
			names = append(names, pod.Name)
		}
		names = append(names, step.Nodes...)
		if step.Target != "" {
			names = append(names, fmt.Sprintf("%s to %d", step.Target, step.Replicas))
		}
		fmt.Fprintf(&out, "%6s  %s %s\n", step.At, step.Kind, strings.Join(names, " "))
	}
	fmt.Fprintf(&out, "%6s  %s; recovered at %s; %d pods, %d requests, %d waves\n", p.Duration, p.Outcome, p.Recovered, p.Pods, p.Requests, len(p.Waves))
	for _, b := range p.Budgets {
		fmt.Fprintf(&out, "budget %s: %d evictions, at least %d of %d healthy\n", b.Budget.Name, b.Evictions, b.Lowest, b.Desired)
	}
	for _, g := range p.Surges {
		fmt.Fprintf(&out, "surge %s: %d to %d, from %s to %s\n", g.Workload.Name, g.From, g.To, g.Start, g.End)
	}
	fmt.Fprint(&out, blockers(p.Blockers))
	for _, l := range p.Left {
		fmt.Fprintf(&out, "left: %s on %q: %s\n", l.Pod.Name, l.Node, l.Why)
	}
	for _, u := range p.Unknown {
		fmt.Fprintln(&out, "unknown: "+u)
	}
	return out.String()
}
