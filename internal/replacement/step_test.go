package replacement

import (
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

var (
	n1Off        = Node{Name: "n1", UID: "n1", State: NodeOff}
	n1Lost       = Node{Name: "n1", UID: "n1", State: NodeLost}
	n1Alive      = Node{Name: "n1", UID: "n1", State: NodeAlive, Since: ago(time.Hour), Until: noon}
	cordonedNode = Node{Name: "n1", UID: "n1", State: NodeAlive, Cordoned: true, Since: ago(time.Hour), Until: noon}
	n2Alive      = Node{Name: "n2", UID: "n2", State: NodeAlive, Since: ago(time.Hour), Until: noon}
)

// lost is db-0, whose node n1 is proven off. The set has made a pod that finds no node, since the claim is bound to a volume on n1.
func lost(changes ...func(*StepInput)) StepInput {
	in := StepInput{
		Now: noon, Namespace: "shop", Member: v1alpha1.MemberRef{Role: "etcd-member", ID: "db-0", PodName: "db-0"}, Retain: true, Set: Set{Name: "db", Makes: Yes},
		Pod:    &NamedPod{UID: "p2", Unscheduled: "1 node(s) had volume node affinity conflict"},
		Places: []Place{{Node: n1Off, GoneTime: ago(time.Hour)}},
		Claims: []Claim{{Name: "data-db-0", UID: "c1", Volume: "v1", VolumeUID: "v1", Known: true}},
		System: Membership{Left: Yes, Joined: Yes, Reported: No},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// removing is the same after it was written down what goes.
func removing(changes ...func(*StepInput)) StepInput {
	in := lost(permitted)
	in.Progress = Progress{Phase: Removing, Node: "n1", NodeUID: "n1", PodUID: "p2", Claims: []ClaimRef{{Name: "data-db-0", UID: "c1", Volume: "v1"}}}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// joining is the same when nothing of the predecessor is left, and the successor is Ready on n2.
func joining(changes ...func(*StepInput)) StepInput {
	in := removing(func(in *StepInput) {
		in.Progress.Phase = Joining
		in.Pod = &NamedPod{UID: "p3", Node: n2Alive, Ready: true}
		in.Claims[0] = Claim{Name: "data-db-0", UID: "c2", Volume: "v2", Known: true}
		in.System.Reported = Yes
	})
	for _, change := range changes {
		change(&in)
	}
	return in
}

func ruledOut(in *StepInput) { in.Rules = []Blocker{{Reason: "NoQuorum"}} }

func permitted(in *StepInput) { in.PermitTime = ago(time.Second) }

func on(node Node) func(*StepInput) {
	return func(in *StepInput) { in.Pod = &NamedPod{UID: "p1", Node: node} }
}

func was(places ...Place) func(*StepInput) { return func(in *StepInput) { in.Places = places } }

func listed(left, joined Tristate) func(*StepInput) {
	return func(in *StepInput) { in.System.Order, in.System.Left, in.System.Joined = LeavesFirst, left, joined }
}

func own(addresses ...string) *v1alpha1.MemberRegistration {
	return &v1alpha1.MemberRegistration{ID: "1", Addresses: addresses}
}

// last: the predecessor leaves the system's list once the successor has joined by itself.
func last(in *StepInput) { in.System.Order = LeavesLast }

// succeeded: the successor is on the system's list.
func succeeded(in *StepInput) { in.System.Successor = &v1alpha1.MemberRegistration{ID: "2"} }

func claim(change func(*Claim)) func(*StepInput) {
	return func(in *StepInput) { change(&in.Claims[0]) }
}

func TestStep(t *testing.T) {
	deletesPod, deletesClaim := Action{Kind: DeletePod, Name: "db-0", UID: "p2"}, Action{Kind: DeleteClaim, Name: "data-db-0", UID: "c1"}
	retains := Action{Kind: RetainVolume, Name: "v1", UID: "v1"}
	writes := func(phase Phase) Action {
		progress := removing().Progress
		progress.Phase = phase
		return Action{Kind: Write, Progress: progress}
	}
	cancelled := func(in *StepInput) { in.Cancelled = true }
	noPod := func(in *StepInput) { in.Pod = nil }
	noClaim := claim(func(c *Claim) { *c = Claim{Name: c.Name} })
	noClaims := func(in *StepInput) { in.Claims, in.Progress.Claims = nil, nil }
	displaced := func(in *StepInput) { in.PermitTime, in.PermittedFor = time.Time{}, "other" }
	succeeds := Action{Kind: Write, Progress: Progress{Phase: Joining, Node: "n1", NodeUID: "n1", Registration: own("http://db-0.db.shop.svc:2380")}}
	at := func(addresses ...string) func(*StepInput) {
		return func(in *StepInput) { in.System.Member = own(addresses...) }
	}
	failed := func(in *StepInput) { in.System.MemberFailed = true }
	bySteps := func(in *StepInput) { in.System.Order = BySteps }
	elsewhere := func(in *StepInput) {
		listed(Unknown, Unknown)(in)
		in.System.Elsewhere, in.System.Unread = true, "another system answers"
	}
	since := func(ago time.Duration) func(*StepInput) { return func(in *StepInput) { in.StepTime = noon.Add(-ago) } }
	unfounded := func(in *StepInput) { in.Unfounded = "it is well" }
	writes0 := func(phase Phase) Action { return Action{Kind: Write, Progress: Progress{Phase: phase}} }
	after := func(in *StepInput) { in.Set.After = "db-a" }
	back := Action{Kind: Write}
	begins := writes(Removing)
	begins.Progress.PodUID = "" // of a pod that is on no node
	entered := func(in *StepInput) { in.System.Member = own("http://db-0.db.shop.svc:2380") }
	enters := begins
	enters.Progress.Registration = own("http://db-0.db.shop.svc:2380")
	for name, test := range map[string]struct {
		in       StepInput
		actions  []Action
		blockers []Reason
		next     time.Time
	}{
		"it is written down what goes":           {in: lost(permitted), actions: []Action{begins}},
		"its node was deleted":                   {in: lost(permitted, was(Place{Node: Node{Name: "n1", State: NodeDeleted}})), actions: []Action{{Kind: Write, Progress: Progress{Phase: Removing, Node: "n1", Claims: writes(Removing).Progress.Claims}}}},
		"its pod is still on it":                 {in: lost(permitted, on(n1Off)), actions: []Action{{Kind: Write, Progress: Progress{Phase: Removing, Node: "n1", NodeUID: "n1", PodUID: "p1", Claims: writes(Removing).Progress.Claims}}}},
		"no permit stands":                       {in: lost(), actions: []Action{{Kind: Permit}}},
		"it is in the way now":                   {in: lost(permitted, ruledOut), blockers: []Reason{"NoQuorum"}, next: noon.Add(59 * time.Second)},
		"it has been in the way for long":        {in: lost(func(in *StepInput) { ruledOut(in); in.PermitTime = ago(time.Minute) }), actions: []Action{{Kind: Release}}, blockers: []Reason{"NoQuorum"}},
		"cancelled with a permit":                {in: lost(cancelled, permitted), actions: []Action{{Kind: Release}}},
		"the permit has gone":                    {in: removing(func(in *StepInput) { in.PermitTime = time.Time{} }), actions: []Action{{Kind: Permit}}},
		"the permit has gone while it joins":     {in: joining(func(in *StepInput) { in.PermitTime = time.Time{} }), actions: []Action{{Kind: Permit}}},
		"cancelled":                              {in: lost(cancelled), actions: []Action{{Kind: Write, Progress: Progress{Phase: Cancelled}}}},
		"a rule does not pass":                   {in: lost(ruledOut), blockers: []Reason{"NoQuorum"}},
		"the set does not make it":               {in: lost(func(in *StepInput) { in.Set.Makes = No }), blockers: []Reason{StatefulSetMissing}},
		"an earlier pod is not Ready":            {in: lost(after), blockers: []Reason{EarlierPodNotReady}},
		"… once it was written down what goes":   {in: removing(after), actions: []Action{back}, blockers: []Reason{EarlierPodNotReady}},
		"the set is not known":                   {in: lost(func(in *StepInput) { in.Set.Makes = Unknown }), blockers: []Reason{StatefulSetMissing}},
		"it runs":                                {in: lost(on(n1Alive)), blockers: []Reason{PredecessorRuns}},
		"it is being evicted":                    {in: lost(on(n1Alive), func(in *StepInput) { in.Pod.Terminating = true }), blockers: []Reason{PredecessorLeaving}},
		"its set has made it elsewhere":          {in: lost(permitted, on(n2Alive), noClaims, entered), actions: []Action{succeeds}},
		"… and the earlier pod may still run":    {in: lost(on(n2Alive), noClaims, was(Place{Node: n1Lost, GoneTime: ago(time.Hour)})), blockers: []Reason{NodeNotProvenOff}},
		"… where it was before as well":          {in: lost(on(n2Alive), noClaims, was(Place{Node: n2Alive, GoneTime: ago(time.Hour)})), blockers: []Reason{PredecessorRuns}},
		"… with a claim of the predecessor":      {in: lost(on(n2Alive)), blockers: []Reason{PredecessorRuns}},
		"… and has to leave its list first":      {in: lost(permitted, on(n2Alive), noClaims, entered, listed(No, No)), blockers: []Reason{PredecessorRuns}, next: noon.Add(59 * time.Second)},
		"… and leaves it last, and has failed":   {in: lost(permitted, on(n2Alive), noClaims, entered, listed(No, No), last, failed), actions: []Action{succeeds}},
		"… and has not failed as far as is said": {in: lost(permitted, on(n2Alive), noClaims, entered, listed(No, No), last), blockers: []Reason{PredecessorRuns}, next: noon.Add(59 * time.Second)},
		"… and leaves it by steps":               {in: lost(permitted, on(n2Alive), noClaims, entered, listed(No, No), bySteps), actions: []Action{succeeds}},
		"… by what is known of the set":          {in: lost(on(n2Alive), noClaims, func(in *StepInput) { in.Set.Makes = Unknown }), blockers: []Reason{StatefulSetMissing, PredecessorRuns}},
		"its node is lost":                       {in: lost(on(n1Lost)), blockers: []Reason{NodeNotProvenOff}},
		"it was deleted from a lost node":        {in: lost(was(Place{Node: n1Lost, GoneTime: ago(time.Hour)})), blockers: []Reason{NodeNotProvenOff}},
		"it was on a lost node before":           {in: lost(was(Place{Node: n1Lost, GoneTime: ago(time.Hour)}, Place{Node: Node{Name: "n3", State: NodeOff}})), blockers: []Reason{NodeNotProvenOff}},
		"its node cannot be read":                {in: lost(was(Place{Node: Node{Name: "n1"}})), blockers: []Reason{NodeNotKnown}},
		"where it was is not known":              {in: lost(was()), blockers: []Reason{NodeNotKnown}},
		"it was not seen to go":                  {in: lost(was(Place{Node: n1Alive})), blockers: []Reason{NodeNotProvenOff}},
		"it has just gone":                       {in: lost(was(Place{Node: n1Alive, GoneTime: ago(29 * time.Second)})), blockers: []Reason{PredecessorLeaving}, next: noon.Add(time.Second)},
		"its node has just come back":            {in: lost(was(Place{Node: Node{Name: "n1", UID: "n1", State: NodeAlive, Since: ago(time.Second), Until: noon}, GoneTime: ago(time.Hour)})), blockers: []Reason{PredecessorLeaving}, next: noon.Add(29 * time.Second)},
		"its node is cordoned":                   {in: lost(permitted, was(Place{Node: cordonedNode, GoneTime: ago(time.Hour)})), actions: []Action{begins}},
		"repair leaves it where that is so":      {in: lost(permitted, was(Place{Node: cordonedNode, GoneTime: ago(time.Hour)}), func(in *StepInput) { in.Repair = true }), blockers: []Reason{MemberPaused}, next: noon.Add(59 * time.Second)},
		"it has been gone for long":              {in: lost(permitted, was(Place{Node: n1Alive, GoneTime: ago(30 * time.Second)})), actions: []Action{begins}},
		"its volume cannot be read":              {in: lost(claim(func(c *Claim) { c.Known = false })), blockers: []Reason{VolumeNotKnown}},
		"its volume need not be known":           {in: lost(permitted, claim(func(c *Claim) { c.Known = false }), func(in *StepInput) { in.Retain = false }), actions: []Action{begins}},
		"the system's list is not known":         {in: lost(listed(Unknown, No)), blockers: []Reason{MembershipNotKnown}},
		"repair has no reason any more":          {in: lost(unfounded), actions: []Action{writes0(Cancelled)}},
		"… and it has a permit":                  {in: lost(permitted, unfounded), actions: []Action{{Kind: Release}}},
		"… and it was written down what goes":    {in: removing(unfounded), actions: []Action{back}},
		"… and it is in part gone":               {in: removing(unfounded, noClaim), actions: []Action{deletesPod}},
		"… and it may have left by steps":        {in: removing(unfounded, listed(No, No), bySteps, entered), actions: []Action{{Kind: Leave}}},
		"another system answers":                 {in: removing(elsewhere), blockers: []Reason{MembershipNotKnown}},
		"… and it is cancelled":                  {in: removing(elsewhere, cancelled, since(time.Minute)), blockers: []Reason{MembershipNotKnown}, next: noon.Add(9 * time.Minute)},
		"… and it is cancelled for long":         {in: removing(elsewhere, cancelled, since(forsakenAfter)), actions: []Action{writes(Cancelled)}},
		"… and its successor is waited for":      {in: joining(elsewhere, cancelled, since(forsakenAfter)), actions: []Action{writes(Cancelled)}},
		"… and it is not known which":            {in: removing(listed(Unknown, Unknown), cancelled, since(forsakenAfter)), blockers: []Reason{MembershipNotKnown}},
		"several things are in the way":          {in: lost(on(n1Lost), listed(Unknown, No), ruledOut), blockers: []Reason{"NoQuorum", NodeNotProvenOff, MembershipNotKnown}},
		"it goes":                                {in: removing(), actions: []Action{retains, deletesClaim, deletesPod}},
		"it goes with its volume":                {in: removing(func(in *StepInput) { in.Retain = false }), actions: []Action{deletesClaim, deletesPod}},
		"its volume is retained":                 {in: removing(claim(func(c *Claim) { c.Retained = true })), actions: []Action{deletesClaim, deletesPod}},
		"its claim was never bound":              {in: removing(claim(func(c *Claim) { c.Volume = "" })), actions: []Action{deletesClaim, deletesPod}},
		"it leaves the system's list first":      {in: removing(listed(No, No)), actions: []Action{{Kind: Leave}}},
		"it has left the system's list":          {in: removing(listed(Yes, No), succeeded), actions: []Action{retains, deletesClaim, deletesPod}},
		"its successor is listed":                {in: removing(listed(Yes, No)), actions: []Action{{Kind: Join}}},
		"it is not on the system's list":         {in: lost(permitted, listed(Yes, No)), blockers: []Reason{MembershipNotKnown}, next: noon.Add(59 * time.Second)},
		"its entry is written down":              {in: lost(permitted, listed(No, No), entered), actions: []Action{enters}},
		"its entry is another's":                 {in: lost(listed(No, No), func(in *StepInput) { in.System.Member = own("http://db-0.db.victim.svc:2380") }), blockers: []Reason{MembershipNotKnown}},
		"… whose Service is called as this":      {in: lost(listed(No, No), at("http://db-0.shop.victim.svc:2380")), blockers: []Reason{MembershipNotKnown}},
		"… and svc comes later":                  {in: lost(listed(No, No), at("http://db-0.shop.victim.svc.svc:2380")), blockers: []Reason{MembershipNotKnown}},
		"… or is the namespace":                  {in: lost(listed(No, No), at("http://db-0.shop.svc.svc:2380")), blockers: []Reason{MembershipNotKnown}},
		"… or not at all":                        {in: lost(listed(No, No), at("http://db-0.shop:2380")), blockers: []Reason{MembershipNotKnown}},
		"… or is all that it has":                {in: lost(listed(No, No), at("http://db-0.svc:2380")), blockers: []Reason{MembershipNotKnown}},
		"one of its addresses is another's":      {in: lost(listed(No, No), at("http://db-0.db.shop.svc:2380", "http://db-0.shop.victim.svc:2380")), blockers: []Reason{MembershipNotKnown}},
		"its entry is at a Service of its own":   {in: lost(listed(No, No), at("http://db-0.shop.svc:2380")), actions: []Action{{Kind: Permit}}},
		"… by its whole name":                    {in: lost(listed(No, No), at("http://db-0.db.shop.svc.cluster.local:2380")), actions: []Action{{Kind: Permit}}},
		"… in a namespace called svc":            {in: lost(listed(No, No), at("http://db-0.db.svc.svc:2380"), func(in *StepInput) { in.Namespace = "svc" }), actions: []Action{{Kind: Permit}}},
		"its entry is at an address":             {in: lost(listed(No, No), func(in *StepInput) { in.System.Member = own("http://10.1.2.3:2380") }), blockers: []Reason{MembershipNotKnown}},
		"it has come back and is no member":      {in: removing(on(n1Alive), listed(Yes, No), succeeded), actions: []Action{retains, deletesClaim, {Kind: DeletePod, Name: "db-0", UID: "p1"}}},
		"all of its system is gone":              {in: removing(cancelled, listed(Unknown, Unknown), func(in *StepInput) { in.Set.Makes, in.StepTime = No, ago(10*time.Minute) }), actions: []Action{writes(Cancelled)}},
		"all of its system may be gone":          {in: removing(cancelled, noPod, listed(Unknown, Unknown), func(in *StepInput) { in.Set.Makes, in.StepTime = No, ago(time.Minute) }), blockers: []Reason{MembershipNotKnown}, next: noon.Add(9 * time.Minute)},
		"no successor of a system that is gone":  {in: joining(cancelled, noPod, listed(Unknown, Unknown), func(in *StepInput) { in.Set.Makes, in.StepTime = No, ago(time.Hour) }), actions: []Action{writes(Cancelled)}},
		"a rule does not pass any more":          {in: removing(ruledOut), actions: []Action{back}, blockers: []Reason{"NoQuorum"}},
		"cancelled in time":                      {in: removing(cancelled), actions: []Action{back}},
		"cancelled too late":                     {in: removing(cancelled, listed(Yes, No), succeeded), actions: []Action{retains, deletesClaim, deletesPod}},
		"it has come back in time":               {in: removing(on(n2Alive)), actions: []Action{back}, blockers: []Reason{PredecessorRuns}},
		"it has come back too late":              {in: removing(on(n2Alive), claim(func(c *Claim) { c.Terminating = true })), blockers: []Reason{PredecessorRuns}},
		"where it was, the node is lost":         {in: removing(listed(Yes, No), was(Place{Node: n1Lost})), blockers: []Reason{NodeNotProvenOff}},
		"a later pod is on a node that is off":   {in: removing(claim(func(c *Claim) { c.Terminating = true }), func(in *StepInput) { in.Pod = &NamedPod{UID: "p9", Node: n1Off} }), actions: []Action{retains, {Kind: DeletePod, Name: "db-0", UID: "p9"}}, blockers: []Reason{PredecessorLeaving}},
		"its claim goes, a later pod waits":      {in: removing(claim(func(c *Claim) { c.Terminating = true }), func(in *StepInput) { in.Pod = &NamedPod{UID: "p9"} }), actions: []Action{retains}, blockers: []Reason{PredecessorLeaving}},
		"its claim goes, and its pod waits":      {in: removing(claim(func(c *Claim) { c.Terminating = true }), func(in *StepInput) { in.Pod.Node = Node{} }), actions: []Action{retains, deletesPod}, blockers: []Reason{PredecessorLeaving}},
		"its claim is held":                      {in: removing(claim(func(c *Claim) { c.Terminating = true })), actions: []Action{retains, deletesPod}, blockers: []Reason{PredecessorLeaving}},
		"another has deleted its claim":          {in: lost(permitted, claim(func(c *Claim) { c.Terminating = true })), actions: []Action{retains}},
		"a claim that goes is not known":         {in: removing(claim(func(c *Claim) { c.Terminating, c.Known = true, false })), blockers: []Reason{VolumeNotKnown}},
		"what is left could not be read":         {in: removing(noClaim, noPod, func(in *StepInput) { in.Unread = []Blocker{Unread("claim data-db-0", "no", "x")} }), blockers: []Reason{NotRead}},
		"its pod is back on a lost node":         {in: removing(noClaims, on(n1Lost), func(in *StepInput) { in.Pod.UID, in.Pod.Terminating = "p2", true }), blockers: []Reason{NodeNotProvenOff}},
		"its pod takes long to end":              {in: lost(was(Place{Node: n1Alive, GoneTime: ago(time.Minute)}), func(in *StepInput) { in.Grace = 45 * time.Second }), blockers: []Reason{PredecessorLeaving}, next: noon.Add(15 * time.Second)},
		"its node has fallen silent":             {in: lost(was(Place{Node: Node{Name: "n1", UID: "n1", State: NodeAlive, Since: ago(time.Hour), Until: ago(time.Minute)}, GoneTime: ago(40 * time.Second)})), blockers: []Reason{NodeNotProvenOff}, next: noon.Add(30 * time.Second)},
		"its node is not ready":                  {in: lost(was(Place{Node: Node{Name: "n1", UID: "n1", State: NodeNotReady}, GoneTime: ago(time.Hour)})), blockers: []Reason{NodeUnready}},
		"nothing is known of it":                 {in: lost(func(in *StepInput) { in.Set, in.Places, in.Rules = Set{}, nil, []Blocker{NotOfSet("db-0")} }), blockers: []Reason{ProviderUnsupported}},
		"its claim is gone":                      {in: removing(noClaim), actions: []Action{deletesPod}},
		"another claim has the name":             {in: removing(claim(func(c *Claim) { c.UID = "c2" })), actions: []Action{deletesPod}},
		"its pod is held":                        {in: removing(noClaim, func(in *StepInput) { in.Pod.Terminating = true }), blockers: []Reason{PredecessorLeaving}},
		"another request has its permit":         {in: lost(displaced), blockers: []Reason{AnotherIsReplaced}},
		"… while it goes":                        {in: removing(displaced), blockers: []Reason{AnotherIsReplaced}},
		"… when all is gone":                     {in: removing(displaced, noClaim, noPod), blockers: []Reason{AnotherIsReplaced}},
		"… while the successor is waited for":    {in: joining(displaced), blockers: []Reason{AnotherIsReplaced}},
		"all is gone":                            {in: removing(noClaim, noPod), actions: []Action{writes(Joining)}},
		"the successor is there":                 {in: removing(noClaim, on(n2Alive)), actions: []Action{writes(Joining)}},
		"a pod without claims goes":              {in: removing(noClaims, func(in *StepInput) { in.Pod.Node = n1Off }), actions: []Action{deletesPod}},
		"the set has made no pod":                {in: joining(noPod), blockers: []Reason{SuccessorMissing}},
		"… since an earlier one is not Ready":    {in: joining(noPod, after), blockers: []Reason{EarlierPodNotReady, SuccessorMissing}},
		"the set makes none any more":            {in: joining(noPod, func(in *StepInput) { in.Set.Makes = No }), blockers: []Reason{StatefulSetMissing, SuccessorMissing}},
		"the successor finds no node":            {in: joining(func(in *StepInput) { in.Pod.Node = Node{} }), blockers: []Reason{SuccessorUnscheduled}},
		"the successor is on the same node":      {in: joining(on(n1Alive)), blockers: []Reason{SuccessorOnSameNode}},
		"the successor is lost too":              {in: joining(on(Node{Name: "n2", State: NodeDeleted})), blockers: []Reason{SuccessorNotReady}},
		"it is accepted on the same node":        {in: joining(on(n1Alive), cancelled, func(in *StepInput) { in.Pod.Ready = true }), actions: []Action{writes(Complete)}},
		"it is not to be there any more":         {in: joining(noPod, cancelled, func(in *StepInput) { in.Set.Makes = No }), actions: []Action{writes(Cancelled)}},
		"its claim was not made":                 {in: joining(noClaim, func(in *StepInput) { in.Pod.Node, in.Pod.UID = Node{}, "p2" }), actions: []Action{deletesPod}},
		"it was orphaned":                        {in: joining(cancelled, func(in *StepInput) { in.Set.Makes = No }), actions: []Action{writes(Cancelled)}},
		"its node is lost again":                 {in: removing(noClaim, noPod, was(Place{Node: n1Lost, GoneTime: noon})), actions: []Action{writes(Joining)}},
		"another pod has the name":               {in: joining(func(in *StepInput) { in.Unread = []Blocker{NotOfSet("db-0")} }), blockers: []Reason{ProviderUnsupported}},
		"a new node has the name":                {in: joining(func(in *StepInput) { in.Pod.Node = Node{Name: "n1", UID: "n1-again", State: NodeAlive} }), actions: []Action{writes(Complete)}},
		"the successor is not listed":            {in: joining(listed(Yes, No), noPod), actions: []Action{{Kind: Join}}},
		"the successor joins":                    {in: joining(listed(Yes, No), succeeded), actions: []Action{{Kind: Join}}},
		"it joins and is not Ready":              {in: joining(listed(Yes, No), succeeded, func(in *StepInput) { in.Pod.Ready = false }), actions: []Action{{Kind: Join}}, blockers: []Reason{SuccessorNotReady}},
		"it has joined":                          {in: joining(listed(Yes, Yes), succeeded), actions: []Action{writes(Complete)}},
		"it does not join on the same node":      {in: joining(listed(Yes, No), succeeded, on(n1Alive)), blockers: []Reason{SuccessorOnSameNode}},
		"what does not come is taken off":        {in: joining(listed(Yes, No), succeeded, noPod, cancelled, func(in *StepInput) { in.Set.Makes = No }), actions: []Action{{Kind: Leave, Registration: &v1alpha1.MemberRegistration{ID: "2"}}}},
		"what does not come may be listed":       {in: joining(listed(Unknown, Unknown), noPod, cancelled, func(in *StepInput) { in.Set.Makes = No }), blockers: []Reason{MembershipNotKnown}},
		"it goes before it leaves":               {in: removing(listed(No, No), last), actions: []Action{retains, deletesClaim, deletesPod}},
		"it may be cancelled before it leaves":   {in: removing(cancelled, listed(No, No), last), actions: []Action{back}},
		"all is gone but its entry":              {in: removing(noClaim, noPod, listed(No, No), last), actions: []Action{writes(Joining)}},
		"the successor is to join by itself":     {in: joining(listed(No, No), last), blockers: []Reason{SuccessorNotReported}},
		"it leaves when that has joined":         {in: joining(listed(No, Yes), succeeded, last), actions: []Action{{Kind: Leave}}},
		"it has left last":                       {in: joining(listed(Yes, Yes), succeeded, last), actions: []Action{writes(Complete)}},
		"it stays listed where none comes":       {in: joining(listed(No, No), last, noPod, cancelled, func(in *StepInput) { in.Set.Makes = No }), actions: []Action{writes(Cancelled)}},
		"the list is not known":                  {in: joining(listed(Unknown, Unknown)), blockers: []Reason{MembershipNotKnown}},
		"the successor is not Ready":             {in: joining(func(in *StepInput) { in.Pod.Ready = false }), blockers: []Reason{SuccessorNotReady}},
		"the successor is not reported":          {in: joining(func(in *StepInput) { in.System.Reported = No }), blockers: []Reason{SuccessorNotReported}},
		"whether it is reported is not known":    {in: joining(func(in *StepInput) { in.System.Reported = Unknown }), blockers: []Reason{SuccessorNotReported}},
		"it is replaced":                         {in: joining(), actions: []Action{writes(Complete)}},
		"over":                                   {in: joining(func(in *StepInput) { in.Progress.Phase, in.PermitTime = Complete, time.Time{} })},
		"over, and others wait":                  {in: joining(func(in *StepInput) { in.Progress.Phase = Complete }), actions: []Action{{Kind: Release}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Step(test.in)
			var reasons []Reason
			for _, b := range got.Blockers {
				reasons = append(reasons, b.Reason)
				if len(test.in.Rules) == 0 && (b.Message == "" || b.Remedy == "") {
					t.Errorf("%s has no message or no remedy", b.Reason)
				}
			}
			same(t, got.Actions, test.actions)
			same(t, reasons, test.blockers)
			same(t, got.NextLook, test.next)
		})
	}
}

// A member that has come back while its claims go is distinguished from one that has never left.
func TestStepSaysThatItHasComeBack(t *testing.T) {
	got := Step(removing(on(n2Alive), claim(func(c *Claim) { c.Terminating = true })))
	same(t, got.Blockers, []Blocker{cameBack(removing().Member, "n2", "shop")})
}

// A member without a pod is gone once nothing of it can still run, wherever it was.
func TestGone(t *testing.T) {
	none := func(in *StepInput) { in.Pod = nil }
	for name, c := range map[string]struct {
		in   StepInput
		want bool
	}{
		"its node is proven off":            {lost(none), true},
		"there is a pod":                    {lost(), false},
		"its node may still run it":         {lost(none, was(Place{Node: n1Lost, GoneTime: ago(time.Hour)})), false},
		"it had its time to end":            {lost(none, was(Place{Node: n1Alive, GoneTime: ago(time.Hour)})), true},
		"it has not had it yet":             {lost(none, was(Place{Node: n1Alive, GoneTime: ago(time.Second)})), false},
		"where it was is not known":         {lost(none, was()), false},
		"of two nodes one may still run it": {lost(none, was(Place{Node: n1Lost, GoneTime: ago(time.Hour)}, Place{Node: n2Alive, GoneTime: ago(time.Hour)})), false},
		"its node is deleted":               {lost(none, was(Place{Node: Node{Name: "n1", State: NodeDeleted}, GoneTime: noon})), true},
	} {
		if got := Gone(c.in); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
