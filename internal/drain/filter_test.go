package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// asked is a request with kubectl's defaults: every filter objects.
func asked(options ...func(*drain.Request)) drain.Request {
	req := drain.Request{
		Self: snapshot.Drainer{ID: me}, Nodes: []string{"a"}, Started: start,
		DaemonSets: drain.DaemonSetsObject, Surge: drain.SurgeAuto,
	}
	for _, o := range options {
		o(&req)
	}
	return req
}

func force(r *drain.Request)          { r.Force = true }
func ignoreDaemons(r *drain.Request)  { r.DaemonSets = drain.DaemonSetsIgnore }
func evictDaemons(r *drain.Request)   { r.DaemonSets = drain.DaemonSetsEvict }
func deleteEmptyDir(r *drain.Request) { r.DeleteEmptyDir = true }

func selecting(selector string) func(*drain.Request) {
	return func(r *drain.Request) {
		parsed, err := labels.Parse(selector)
		if err != nil {
			panic(err) // a case is written wrong
		}
		r.PodSelector = parsed
	}
}

func TestObjections(t *testing.T) {
	bare := pod("bare", on("a"))
	cache := pod("cache", on("a"), of("cache"), emptyDir("data"))
	agent := all(daemonSet("agent"), pod("agent-a", on("a"), ofDaemon("agent")))
	lost := pod("lost-a", on("a"), ofDaemon("lost"))
	cases := map[string]struct {
		req   drain.Request
		facts fact
		want  []string
	}{
		"a pod with a controller raises none":          {asked(), pod("web", on("a"), of("web")), nil},
		"a pod without a controller":                   {asked(), bare, []string{"bare: UnreplicatedPod!"}},
		"… is what --force is for":                     {asked(force), bare, nil},
		"local data":                                   {asked(), cache, []string{"cache: LocalStorage!"}},
		"… is not what --force is for":                 {asked(force), cache, []string{"cache: LocalStorage!"}},
		"… is what --delete-emptydir-data is for":      {asked(deleteEmptyDir), cache, nil},
		"a DaemonSet's pod":                            {asked(), agent, []string{"agent-a: DaemonSetPod!"}},
		"… is not what --force is for either":          {asked(force), agent, []string{"agent-a: DaemonSetPod!"}},
		"… may stay":                                   {asked(ignoreDaemons), agent, nil},
		"… may go last":                                {asked(evictDaemons), agent, nil},
		"a pod whose DaemonSet is gone":                {asked(ignoreDaemons), lost, []string{"lost-a: OrphanedDaemonSetPod!"}},
		"… goes with --force":                          {asked(force), lost, nil},
		"a DaemonSet of another group is any owner":    {asked(), all(pod("kruise-a", on("a"), ofDaemon("kruise"), ofGroup("apps.kruise.io/v1alpha1"))), nil},
		"… and its kind alone says nothing":            {asked(ignoreDaemons), all(pod("kruise-a", on("a"), ofDaemon("kruise"), ofGroup("apps.kruise.io/v1alpha1"), emptyDir("x"))), []string{"kruise-a: LocalStorage!"}},
		"… is not lost where DaemonSets are not seen":  {asked(ignoreDaemons), all(lost, unreadable("daemonsets")), nil},
		"a static pod stays, whatever is wrong":        {asked(), pod("static", on("a"), mirror, emptyDir("x")), nil},
		"finished pods pass every filter":              {asked(), all(pod("done", on("a"), phase(corev1.PodSucceeded), emptyDir("x")), pod("died", on("a"), phase(corev1.PodFailed))), nil},
		"a DaemonSet's finished pod passes":            {asked(), all(daemonSet("agent"), pod("agent-a", on("a"), ofDaemon("agent"), phase(corev1.PodFailed))), nil},
		"a pod that is not selected stays":             {asked(selecting("app=web")), all(bare, cache), nil},
		"an ignored DaemonSet's local data stays":      {asked(ignoreDaemons), all(daemonSet("agent"), pod("agent-a", on("a"), ofDaemon("agent"), emptyDir("x"))), nil},
		"an order that is no number":                   {asked(), pod("web", on("a"), of("web"), orderInvalid), nil},
		"a pod deleted long ago is skipped, if wanted": {asked(func(r *drain.Request) { r.SkipDeletedBefore = time.Minute }), pod("bare", on("a"), endsAt(start.Add(-61*time.Second))), nil},
		"… not before that":                            {asked(func(r *drain.Request) { r.SkipDeletedBefore = time.Minute }), pod("bare", on("a"), endsAt(start.Add(-59*time.Second))), []string{"bare: UnreplicatedPod!"}},
		"pods elsewhere do not matter":                 {asked(), pod("bare", on("b")), nil},
		"all objections of all pods": {
			asked(), all(bare, agent, cache, pod("both", on("a"), emptyDir("x"))),
			[]string{"agent-a: DaemonSetPod!", "bare: UnreplicatedPod!", "both: UnreplicatedPod!", "both: LocalStorage!", "cache: LocalStorage!"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			view := snapshot.View{Now: start, Cluster: cluster(node("a"), c.facts)}
			same(t, "objections", c.want, reasonsOf(drain.Objections(view, c.req)))
		})
	}
}

func TestObjectionsNameTheFlag(t *testing.T) {
	view := snapshot.View{Now: start, Cluster: cluster(node("a"), pod("bare", on("a"), emptyDir("a", "b", "c", "d")))}
	got := drain.Objections(view, asked())
	same(t, "remedy", []string{"--force to evict it all the same", "--delete-emptydir-data to accept that"}, []string{got[0].Remedy, got[1].Remedy})
	same(t, "message", "its local data (emptyDir a, b, c and 1 more) is lost with the pod", got[1].Message)
}

func TestStayingPods(t *testing.T) {
	s := tell(t, asked(ignoreDaemons, selecting("app!=other")), node("a", ours), daemonSet("agent"),
		pod("agent-a", on("a"), ofDaemon("agent")),
		pod("other", on("a"), of("other")),
		pod("static", on("a"), mirror),
		pod("web", on("a"), of("web")))
	s.expect("evict web")
	same(t, "states", []string{"agent-a staying", "other staying", "static staying", "web evicting"}, sorted(s.states()))
	same(t, "note", "DaemonSet pod", s.status("agent-a").Note)
}

// A filter that objects keeps its own pod only once the drain runs: the command asks
// for objections before anything is changed.
func TestObjectedPodsStayAlone(t *testing.T) {
	s := tell(t, asked(), node("a", ours), pod("bare", on("a")), pod("web", on("a"), of("web")))
	s.expect("evict web")
	s.holds("bare: UnreplicatedPod!")
	s.answer(answers.Accepted)
	s.then(time.Second, gone("web"))
	s.expect("mark a blocked")
}

// An order that is no number keeps no node from being drained: it counts as 0, and is noted once for each namespace.
func TestInvalidOrdersCountAsNone(t *testing.T) {
	other := func(p *snapshot.Pod) { p.Namespace = "other" }
	s := tell(t, ask("a"), node("a", ours),
		pod("late", on("a"), of("web"), func(p *snapshot.Pod) { p.Order = 1 }),
		pod("x", on("a"), of("web"), orderInvalid), pod("y", on("a"), of("web"), orderInvalid), pod("z", on("a"), of("web"), orderInvalid, other))
	s.expect("evict x", "evict y", "evict z")
	s.holds("late: EarlierWave")
	var want []string
	for _, namespace := range []string{"default", "other"} {
		want = append(want, "namespace "+namespace+": the annotation usher.sh/order of some pods is not an integer and counts as 0; "+
			"kubectl get pods -n "+namespace+` -o custom-columns='NAME:.metadata.name,ORDER:.metadata.annotations.usher\.sh/order' shows them`)
	}
	same(t, "notes", want, s.last.Notes)
}

func orderInvalid(p *snapshot.Pod) { p.OrderInvalid = true }

func ofGroup(version string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Owner.APIVersion = version }
}
