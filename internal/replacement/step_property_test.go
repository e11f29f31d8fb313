package replacement

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
)

// cluster is one member of a StatefulSet with a claim, what Kubernetes does to it, and the machines on which it runs.
type cluster struct {
	t         *rapid.T
	now       time.Time
	nodes     map[string]*machine
	pod       *setPod
	claim     *setClaim
	volumes   map[string]*volume
	deleted   map[types.UID]time.Time // pods that are gone from the API
	places    []Place                 // of pods that were bound, and that may still run
	list      Membership
	joined    types.UID // the volume's data that the system knows as its member
	tolerates bool      // every taint
	request   StepInput // what the request and the policy say
	progress  Progress
	permit    time.Time
	foreign   bool // another client has deleted a claim
	made      int
}

// machine is a node. Its processes run while it has power, whether the node reports or not.
type machine struct {
	uid       types.UID
	power     bool
	reports   bool
	since     time.Time // it reports
	proven    bool
	deleted   bool
	processes map[types.UID]string // by pod: the volume that it writes to
}

type setPod struct {
	uid         types.UID
	node        string
	claim       types.UID // that it is bound with; before it knows only the name
	terminating bool
}

type setClaim struct {
	uid         types.UID
	volume      string
	terminating bool
}

type volume struct {
	node     string // "": it follows
	retained bool
	gone     bool
}

var nodeNames = []string{"n0", "n1", "n2"}

func newCluster(t *rapid.T) *cluster {
	c := &cluster{t: t, now: noon, nodes: map[string]*machine{}, volumes: map[string]*volume{}, deleted: map[types.UID]time.Time{}}
	for _, name := range nodeNames {
		c.nodes[name] = &machine{uid: types.UID(name), power: true, reports: true, processes: map[types.UID]string{}}
	}
	c.tolerates = rapid.Bool().Draw(t, "tolerates")
	c.request.Retain = rapid.Bool().Draw(t, "retain")
	c.list = Membership{Order: rapid.SampledFrom([]Order{"", LeavesFirst, LeavesLast, BySteps}).Draw(t, "order"), Left: No, Joined: No, Reported: Yes}
	if c.list.Order != "" {
		c.list.Member = &v1alpha1.MemberRegistration{ID: "old", Addresses: []string{"http://db-0.db.shop.svc:2380"}}
	}
	for range 3 {
		c.controllers()
	}
	c.joined = types.UID(c.claim.volume)
	return c
}

func (c *cluster) uid() types.UID {
	c.made++
	return types.UID(fmt.Sprint(c.made))
}

// controllers are the StatefulSet's, the scheduler, kubelets, the garbage collector and what protects claims, each once.
func (c *cluster) controllers() {
	c.collect()
	if c.claim == nil {
		c.claim = &setClaim{uid: c.uid()}
	}
	if c.pod == nil && !c.claim.terminating {
		c.pod = &setPod{uid: c.uid()}
	}
	c.schedule()
	c.kubelets()
	if old := c.old(); c.list.Order == LeavesLast && c.pod != nil && c.claim != nil && c.claim.volume != old && old != "" && len(c.writers(c.claim.volume)) > 0 {
		c.list.Successor, c.list.Joined = &v1alpha1.MemberRegistration{ID: "new"}, Yes // by itself
	}
}

func (c *cluster) collect() {
	if p := c.pod; p != nil {
		m := c.nodes[p.node]
		if m != nil && m.proven && !c.tolerates { // the taint of a node that is out of service
			p.terminating = true
		}
		dead := m != nil && (m.deleted || m.proven && p.terminating)
		if dead || p.terminating && (p.node == "" || m.reports) {
			c.podGone()
		}
	}
	if c.claim != nil && c.claim.terminating && (c.pod == nil || c.pod.node == "" || c.pod.claim != c.claim.uid) {
		if v := c.volumes[c.claim.volume]; v != nil && !v.retained {
			v.gone = true
		}
		c.claim = nil
	}
}

// podGone takes the pod out of the API.
func (c *cluster) podGone() {
	c.deleted[c.pod.uid] = c.now
	if c.pod.node != "" {
		c.places = append(c.places, Place{Node: Node{Name: c.pod.node}, GoneTime: c.now})
	}
	c.pod = nil
}

func (c *cluster) schedule() {
	if c.pod == nil || c.pod.node != "" || c.claim == nil {
		return
	}
	var fit []string
	for _, name := range nodeNames {
		m, v := c.nodes[name], c.volumes[c.claim.volume]
		local := v != nil && v.node != "" && v.node != name
		again := c.progress.Phase == Joining && m.uid == c.progress.NodeUID // an affinity keeps the successor away
		if m.reports && !m.deleted && !m.proven && !local && !again {
			fit = append(fit, name)
		}
	}
	if len(fit) == 0 || c.claim.terminating {
		return
	}
	c.pod.node = rapid.SampledFrom(fit).Draw(c.t, "scheduled")
	c.pod.claim = c.claim.uid
	if c.claim.volume == "" {
		c.claim.volume = "v" + string(c.uid())
		v := &volume{}
		if rapid.Bool().Draw(c.t, "local") {
			v.node = c.pod.node
		}
		c.volumes[c.claim.volume] = v
	}
}

func (c *cluster) kubelets() {
	for name, m := range c.nodes {
		if !m.power || !m.reports {
			continue
		}
		if c.pod != nil && c.pod.node == name && !c.pod.terminating && c.claim != nil {
			m.processes[c.pod.uid] = c.claim.volume
			c.register(c.claim.volume)
		}
	}
}

// register has what runs take the place under the member's id, where members keep theirs.
func (c *cluster) register(volume string) {
	if c.list.Order == BySteps {
		c.joined, c.list.Left = types.UID(volume), No
	}
}

// ruleBlockers are what the verdict on the member may say, with what a person has to give up for it to hold no longer. What it says of several
// rules at once is that the system does not answer.
var ruleBlockers = []Blocker{
	{Reason: "NoCopies", Rule: "copies", WaivedBy: []string{"copies"}, Message: "no"},
	{Reason: "NoQuorum", Rule: "quorum", WaivedBy: []string{"quorum"}, Message: "no"},
	{Reason: "NoEvidence", WaivedBy: []string{"copies", "quorum"}, Message: "no"},
	{Reason: "OnlyOne", Rule: "only", WaivedBy: []string{"only"}, Never: true, Message: "no"},
	{Reason: "PodThere", Rule: "pod", Message: "no"},
	{Reason: "AnotherIsReplaced", Message: "no"},
}

// held are the blockers that hold whatever is given up.
func (c *cluster) held() (all []Reason) {
	gives := map[string]bool{}
	for _, rule := range c.request.Abandonment.Rules {
		gives[rule] = true
	}
	for _, b := range c.request.Rules {
		waived := b.Reason == "NoCopies" && gives["copies"] || b.Reason == "NoQuorum" && gives["quorum"] || b.Reason == "NoEvidence" && gives["copies"] && gives["quorum"]
		if !waived {
			all = append(all, b.Reason)
		}
	}
	return all
}

// happen has something happen to a machine, to the pod or to the request.
func (c *cluster) happen() {
	m := c.nodes[rapid.SampledFrom(nodeNames).Draw(c.t, "node")]
	switch rapid.IntRange(0, 11).Draw(c.t, "what") {
	case 0:
		m.reports = false
	case 1:
		m.power, m.reports = false, false
		clear(m.processes)
	case 2:
		m.proven = m.proven || !m.power
	case 3:
		if !m.proven && !m.deleted && !m.reports {
			m.power, m.reports, m.since = true, true, c.now
		}
	case 4: // by one who knows
		m.deleted = m.deleted || !m.power
	case 5: // kubectl delete pod --force
		if c.pod != nil {
			c.podGone()
		}
	case 6:
		c.request.Cancelled = rapid.IntRange(0, 4).Draw(c.t, "cancelled") == 0
	case 7:
		c.request.Rules = nil
		for _, b := range ruleBlockers {
			if rapid.IntRange(0, 8).Draw(c.t, string(b.Reason)) == 0 {
				c.request.Rules = append(c.request.Rules, b)
			}
		}
	case 8:
		c.controllers()
	case 9: // the policy is made anew
		c.permit = time.Time{}
	case 10: // kubectl delete pvc, while the pod is bound with it
		if c.claim != nil && c.pod != nil && c.pod.node != "" && c.pod.claim == c.claim.uid {
			c.claim.terminating, c.foreign = true, true
		}
	case 11: // once
		if len(c.request.Abandonment.Rules) == 0 {
			c.request.Abandonment.Rules = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"copies", "quorum", "only", "pod", ""}), rapid.ID).Draw(c.t, "given up")
		}
	}
	c.now = c.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(c.t, "seconds")) * time.Second)
	c.orphans()
}

// orphans ends processes without a pod: a kubelet does within 29 s after it reports again, or after the pod was seen gone.
func (c *cluster) orphans() {
	for _, m := range c.nodes {
		for uid := range m.processes {
			orphan := c.pod == nil || c.pod.uid != uid
			if orphan && m.reports && c.now.Sub(m.since) >= 29*time.Second && c.now.Sub(c.deleted[uid]) >= 29*time.Second {
				delete(m.processes, uid)
			}
		}
	}
}

func (c *cluster) node(name string) Node {
	m := c.nodes[name]
	switch {
	case m == nil:
		return Node{}
	case m.deleted:
		return Node{Name: name, State: NodeDeleted}
	case m.proven:
		return Node{Name: name, UID: m.uid, State: NodeOff}
	case m.reports:
		return Node{Name: name, UID: m.uid, State: NodeAlive, Since: m.since, Until: c.now}
	}
	return Node{Name: name, UID: m.uid, State: NodeLost}
}

func (c *cluster) input() StepInput {
	in := c.request
	in.Namespace = "shop"
	in.Now, in.Member, in.Set = c.now, v1alpha1.MemberRef{Role: "r", ID: "db-0", PodName: "db-0"}, Set{Name: "db", Makes: Yes}
	in.System, in.Progress, in.PermitTime = c.list, c.progress, c.permit
	for _, place := range c.places {
		in.Places = append(in.Places, Place{Node: c.node(place.Node.Name), GoneTime: place.GoneTime})
	}
	if p := c.pod; p != nil {
		in.Pod = &NamedPod{UID: p.uid, Node: c.node(p.node), Ready: p.node != "" && len(c.nodes[p.node].processes) > 0, Terminating: p.terminating}
	}
	claim := Claim{Name: "data-db-0"}
	if c.claim != nil {
		claim.UID, claim.Terminating, claim.Volume, claim.Known = c.claim.uid, c.claim.terminating, c.claim.volume, true
		if v := c.volumes[c.claim.volume]; v != nil {
			claim.Retained = v.retained
		}
	}
	in.Claims = []Claim{claim}
	return in
}

// writers are the pods whose processes write to a volume.
func (c *cluster) writers(to string) (all []types.UID) {
	for _, m := range c.nodes {
		for uid, v := range m.processes {
			if v == to {
				all = append(all, uid)
			}
		}
	}
	return all
}

// old is the predecessor's volume; "": it has none.
func (c *cluster) old() string {
	if len(c.progress.Claims) == 0 {
		return ""
	}
	return c.progress.Claims[0].Volume
}

// whole reports whether nothing that belongs to the predecessor has been taken away.
func (c *cluster) whole() bool {
	return c.progress.LeftTime.IsZero() && (c.list.Order != LeavesFirst || c.list.Left == No) && c.claim != nil && !c.claim.terminating && c.claim.uid == c.progress.Claims[0].UID
}

// carryOut does what follows from a look. The process may end after any action.
func (c *cluster) carryOut(actions []Action) {
	for _, a := range actions {
		if old := c.old(); a.Kind != Write && a.Kind != Permit && a.Kind != Release && a.Kind != RetainVolume && a.Kind != Join && (a.Kind != Leave || c.list.Order != LeavesLast) && !c.expelled() && old != "" && len(c.writers(old)) > 0 {
			c.t.Fatalf("%s while %v write to the predecessor's volume", a.Kind, c.writers(old))
		}
		if a.Kind != Write && a.Kind != Permit && a.Kind != Release && a.Kind != RetainVolume && c.permit.IsZero() {
			c.t.Fatalf("%s without a permit", a.Kind)
		}
		if v := c.volumes[c.old()]; (a.Kind == DeletePod || a.Kind == DeleteClaim) && c.request.Retain && v != nil && !v.gone && !v.retained {
			c.t.Fatalf("%s before the volume of the predecessor is retained", a.Kind)
		}
		if a.Kind == Release && (c.progress.Phase == Joining || c.progress.Phase == Removing) {
			c.t.Fatalf("the permit is taken back while the member is %s", c.progress.Phase)
		}
		if lost := a.Kind == Leave || a.Kind == DeleteClaim; lost && c.whole() && (len(c.held()) > 0 || c.request.Cancelled) {
			c.t.Fatalf("%s is the first thing that is lost, and by now rules that are not given up do not pass (%v), or it is cancelled (%t)", a.Kind, c.held(), c.request.Cancelled)
		}
		if removes := a.Kind == DeleteClaim || a.Kind == DeletePod; removes && c.list.Order == BySteps && c.progress.Phase == Removing && c.progress.LeftTime.IsZero() {
			c.t.Fatalf("%s before the member has left", a.Kind)
		}
		switch a.Kind {
		case Permit:
			c.permit = c.now
		case Release:
			c.permit = time.Time{}
		case Write:
			if a.Progress.Phase == Removing && c.permit.IsZero() {
				c.t.Fatalf("it begins without a permit")
			}
			c.written(&a.Progress)
		case Leave:
			if a.Registration == nil || a.Registration.ID != "old" {
				c.t.Fatalf("%+v leaves", a.Registration)
			}
			if c.list.Order == LeavesLast && c.list.Joined != Yes {
				c.t.Fatalf("the predecessor leaves before its successor has joined")
			}
			if c.list.Order == BySteps && len(c.writers(string(c.joined))) > 0 {
				c.t.Fatalf("the member that runs with volume %s is taken off", c.joined)
			}
			if c.list.Left = Yes; c.list.Order != LeavesLast {
				c.joined = ""
			}
			if c.list.Order == LeavesFirst {
				c.list.Member = nil
			}
		case RetainVolume:
			c.volumes[a.Name].retained = true
		case DeleteClaim:
			if c.claim != nil && c.claim.uid == a.UID {
				c.claim.terminating = true
			}
		case DeletePod:
			if c.pod != nil && c.pod.uid == a.UID {
				c.pod.terminating = true
			}
		case Join:
			c.join(a.Registration)
		case Patch, Undo:
			c.t.Fatalf("%s, and a StatefulSet makes the successor", a.Kind)
		}
		if rapid.IntRange(0, 4).Draw(c.t, "killed") == 0 {
			return
		}
	}
}

// written takes note of progress: that the member has left is never written before it has, nor forgotten.
func (c *cluster) written(next *Progress) {
	before := c.progress.LeftTime
	if before.IsZero() && !next.LeftTime.IsZero() && c.list.Left != Yes {
		c.t.Fatalf("it is written down that the member has left, and its system has it")
	}
	if !before.IsZero() && !next.LeftTime.Equal(before) {
		c.t.Fatalf("it is forgotten that the member has left: %+v", next)
	}
	c.progress = *next
}

// expelled reports whether what the predecessor writes is nothing to its system any more.
func (c *cluster) expelled() bool { return c.list.Order == LeavesFirst && c.list.Left == Yes }

// join adds the successor without a part, and gives it one once it runs.
func (c *cluster) join(old *v1alpha1.MemberRegistration) {
	switch {
	case old == nil || old.ID != "old" || c.list.Order == LeavesLast || c.list.Order == LeavesFirst && c.list.Left != Yes:
		c.t.Fatalf("the successor of %+v joins before that has left", old)
	case c.list.Successor == nil && c.list.Order == LeavesFirst:
		c.list.Successor = &v1alpha1.MemberRegistration{ID: "new"}
		c.list.Member = c.list.Successor
	case c.pod == nil || c.pod.node == "" || c.claim == nil:
		c.t.Fatalf("a successor that is nowhere gets its part")
	case c.progress.NodeUID != "" && c.nodes[c.pod.node].uid == c.progress.NodeUID && !c.request.Cancelled:
		c.t.Fatalf("a successor on its predecessor's node gets its part")
	case len(c.nodes[c.pod.node].processes) > 0:
		c.list.Joined, c.joined = Yes, types.UID(c.claim.volume)
	}
}

// check is about what must hold at any time.
func (c *cluster) check() {
	if old := c.old(); old != "" && c.request.Retain && c.volumes[old].gone && !c.foreign {
		c.t.Fatalf("the volume of the predecessor was destroyed, and it was to be retained")
	}
	if c.progress.Phase != Complete {
		return
	}
	if old := c.old(); old != "" && c.claim != nil && c.claim.volume == old {
		c.t.Fatalf("the replacement is complete, and the member has its old volume")
	}
	if c.list.Order != "" && (c.list.Order != BySteps && c.list.Left != Yes || c.list.Joined != Yes) {
		c.t.Fatalf("the replacement is complete, and the system's list is as it was: %+v", c.list)
	}
}

func (c *cluster) step() StepResult {
	result := Step(c.input())
	c.carryOut(result.Actions)
	c.check()
	return result
}

// TestPropertyStep has machines lose power and their network, be proven off, come back and be deleted, and pods be deleted by force, while a
// member is replaced by a process that is killed again and again. Nothing of a member that may still write is removed, and no volume that
// is to be kept is lost; what a person gives up are the rules that are named, and nothing else. When nothing more happens, it ends, or says what it waits for.
func TestPropertyStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			c.happen()
			if rapid.Bool().Draw(t, "look") {
				c.step()
			}
		}
		var last StepResult
		for range 60 {
			c.controllers()
			c.now = c.now.Add(time.Minute)
			c.orphans()
			if last = c.step(); c.progress.Phase.Over() && c.permit.IsZero() {
				return
			}
		}
		if len(last.Blockers) == 0 {
			t.Fatalf("it has not ended (%q), and says nothing: %+v of %+v", c.progress.Phase, last, c.input())
		}
	})
}

// TestPropertyStepEnds is about a member whose machine is proven off: it is replaced.
func TestPropertyStepEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		m := c.nodes[c.pod.node]
		m.power, m.reports, m.proven = false, false, true
		clear(m.processes)
		old := c.claim.volume
		c.volumes[old].node = c.pod.node // one that follows brings the member back elsewhere, as it was
		for range 60 {
			for range rapid.IntRange(1, 3).Draw(t, "looks") {
				c.step()
			}
			c.controllers()
			c.now = c.now.Add(time.Minute)
			if c.progress.Phase == Complete && c.permit.IsZero() {
				break
			}
		}
		if c.progress.Phase != Complete || !c.permit.IsZero() || len(c.writers(old)) > 0 {
			t.Fatalf("it is not replaced: %q, %+v", c.progress.Phase, Step(c.input()))
		}
	})
}
