package replacement

import (
	"fmt"
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
	bare      bool // its set has no templates of claims: what a pod writes goes with it
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

func newCluster(t *rapid.T, bare bool) *cluster {
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
	c.bare = bare
	for range 3 {
		c.controllers()
	}
	c.joined = types.UID(c.volume())
	return c
}

func (c *cluster) uid() types.UID {
	c.made++
	return types.UID(fmt.Sprint(c.made))
}

// controllers are the StatefulSet's, the scheduler, kubelets, the garbage collector and what protects claims, each once.
func (c *cluster) controllers() {
	c.collect()
	if c.claim == nil && !c.bare {
		c.claim = &setClaim{uid: c.uid()}
	}
	if c.pod == nil && (c.bare || !c.claim.terminating) {
		c.pod = &setPod{uid: c.uid()}
	}
	c.schedule()
	c.kubelets()
	if c.list.Order != LeavesLast || len(c.writers(string(c.joined))) > 0 {
		return
	}
	c.list.MemberFailed = true
	if now := c.volume(); now != string(c.joined) && len(c.writers(now)) > 0 {
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
	if c.pod == nil || c.pod.node != "" || c.claim == nil && !c.bare {
		return
	}
	var fit []string
	for _, name := range nodeNames {
		m, v := c.nodes[name], c.volumes[c.volume()]
		local := v != nil && v.node != "" && v.node != name
		again := c.progress.Phase == Joining && m.uid == c.progress.NodeUID // an affinity keeps the successor away
		if m.reports && !m.deleted && !m.proven && !local && !again {
			fit = append(fit, name)
		}
	}
	if len(fit) == 0 || !c.bare && c.claim.terminating {
		return
	}
	if c.pod.node = rapid.SampledFrom(fit).Draw(c.t, "scheduled"); c.bare {
		return
	}
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
		if c.pod != nil && c.pod.node == name && !c.pod.terminating && (c.bare || c.claim != nil) {
			m.processes[c.pod.uid] = c.volume()
			c.register(c.volume())
		}
	}
}

// volume is what the pod writes to: that of its claim, or one that goes with it; "": none.
func (c *cluster) volume() string {
	switch {
	case c.bare && c.pod != nil:
		return "of " + string(c.pod.uid)
	case c.claim != nil:
		return c.claim.volume
	}
	return ""
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
	if !c.bare {
		in.Claims = []Claim{claim}
	}
	return in
}
