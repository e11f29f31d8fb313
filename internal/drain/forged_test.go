package drain_test

import (
	"testing"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// bare is a ReplicaSet of one pod on node a, whose owner is what its creator has written.
func bare(name, namespace string, owner snapshot.Owner) fact {
	rs := workload("ReplicaSet", name, 1)
	rs.Namespace, rs.Owner = namespace, owner
	return all(func(c *clusterOf) { c.SetWorkload(rs) }, pod(name+"-1", on("a"), in(namespace), ownedBy("ReplicaSet", name, name)))
}

// TestForgedOwnersScaleNothing: users of a namespace write the owners of their ReplicaSets, and may write the UID of a
// Deployment that is not theirs.
func TestForgedOwnersScaleNothing(t *testing.T) {
	own := snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web"}
	with := func(change func(*snapshot.Owner)) snapshot.Owner {
		o := own
		change(&o)
		return o
	}
	cases := map[string]struct {
		set  fact
		want string
	}{
		"its own Deployment's":    {bare("x", "default", own), "scale web to 2, was 1"},
		"of another namespace":    {bare("x", "tenant", own), "evict x-1"},
		"of another kind":         {bare("x", "default", with(func(o *snapshot.Owner) { o.Kind = "Rollout" })), "evict x-1"},
		"of another group":        {bare("x", "default", with(func(o *snapshot.Owner) { o.APIVersion = "example.com/v1" })), "evict x-1"},
		"of another name":         {bare("x", "default", with(func(o *snapshot.Owner) { o.Name = "api" })), "evict x-1"},
		"a pod, not a ReplicaSet": {pod("x-1", on("a"), in("tenant"), of("web")), "evict x-1"},
		"… of its own namespace":  {pod("x-1", on("a"), of("web")), "scale web to 2, was 1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Surge = drain.SurgeAlways
			s := tell(t, req, node("a", ours), node("b"), deployment("web", 1), pods("web", "b", 1), c.set)
			s.expect(c.want)
		})
	}
}

// TestForgedPodsAreNotCounted: a surge waits until its Deployment has as many pods as it wants; those of other namespaces that
// name it as their owner stay for ever.
func TestForgedPodsAreNotCounted(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 1),
		pod("x-1", on("b"), in("tenant"), of("web")), pod("x-2", on("b"), in("tenant"), of("web"), unready))
	s.expect("lower-cost web-a1")
}
