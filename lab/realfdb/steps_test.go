package realfdb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
)

// The members that there are to be.
const (
	storages = 5
	logs     = 3
	size     = storages + logs
)

// replace has a person ask for the replacement of a storage server that is a coordinator.
func (d *database) replace(t *testing.T) {
	t.Helper()
	start, member := time.Now(), d.coordinator(t)
	d.request(t, member)
	var began, ended time.Time // of the time in which it was emptied
	d.until(t, member.Name+" to be replaced", func(set *v1alpha1.MemberSet) bool {
		at := slices.IndexFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == member.Name })
		empties := at >= 0 && set.Status.Members[at].Removal != nil && set.Status.Members[at].Removal.Step == v1alpha1.RemovalEmptying
		switch {
		case empties && began.IsZero():
			began = time.Now()
		case !empties && !began.IsZero() && ended.IsZero():
			ended = time.Now()
		}
		return at < 0
	})
	requests := await.Source[*v1alpha1.ReplacementRequest]{Client: d.own, Resource: "replacementrequests", Namespace: d.namespace}
	waitUntil(t, requests, "its request to be complete", func(all []*v1alpha1.ReplacementRequest) bool {
		return slices.ContainsFunc(all, func(q *v1alpha1.ReplacementRequest) bool {
			return q.Name == member.Name && q.Status.Step == v1alpha1.ReplacementComplete
		})
	})
	d.isWhole(t, size)
	figure(t, "replace one storage member: %.1f s (%.1f s of data movement)", time.Since(start).Seconds(), ended.Sub(began).Seconds())
}

func (d *database) request(t *testing.T, member corev1.Pod) {
	t.Helper()
	d.kubectl(t, fmt.Sprintf(`
apiVersion: usher.sh/v1alpha1
kind: ReplacementRequest
metadata: {name: %[1]s}
spec:
  requester: test.usher.sh/realfdb
  source: {kind: EvictionPolicy, name: fdb}
  member: {role: foundationdb-%[2]s, id: %[1]s}
`, member.Name, member.Labels["class"]), "create", "-f", "-")
}

// cancel deletes the request for a member's replacement while it is emptied: it stays, and its successor goes.
func (d *database) cancel(t *testing.T) {
	t.Helper()
	before, member := ids(d.members(t, "")), d.members(t, "storage")[1]
	d.request(t, member)
	d.until(t, member.Name+" to be emptied", func(set *v1alpha1.MemberSet) bool {
		return slices.ContainsFunc(set.Status.Members, func(m v1alpha1.SetMember) bool {
			return m.ID == member.Name && m.Removal != nil && m.Removal.Step == v1alpha1.RemovalEmptying
		})
	})
	d.kubectl(t, "", "delete", "replacementrequest", member.Name, "--timeout=5m")
	d.isWhole(t, size)
	if after := ids(d.members(t, "")); !slices.Equal(before, after) {
		t.Errorf("members %v have become %v", before, after)
	}
}

// anotherImage has the pods of the storage servers be made anew in one zone after the other, under maintenance.
func (d *database) anotherImage(t *testing.T) {
	t.Helper()
	began, before := time.Now(), d.members(t, "storage")
	d.patch(t, fmt.Sprintf(`{"op": "replace", "path": "/spec/groups/0/template/spec/containers/0/image", "value": %q}`, otherImage))
	d.isWhole(t, size)
	figure(t, "rolling update of %d members: %.1f s, unavailable %.0f s", storages, time.Since(began).Seconds(), unavailable(d.writer.pauses(began)).Seconds())
	if after := d.members(t, "storage"); !slices.Equal(ids(before), ids(after)) {
		t.Errorf("storage servers %v have become %v", ids(before), ids(after))
	}
	d.areOthers(t, before)
}

// anotherLogImage has the log servers be replaced, which is how pods of their role get another template.
func (d *database) anotherLogImage(t *testing.T) {
	t.Helper()
	before := d.members(t, "log")
	d.patch(t, fmt.Sprintf(`{"op": "replace", "path": "/spec/groups/1/template/spec/containers/0/image", "value": %q}`, otherImage))
	d.isWhole(t, size)
	d.areGone(t, before)
}

// anotherClaim has the log servers be replaced.
func (d *database) anotherClaim(t *testing.T) {
	t.Helper()
	before := d.members(t, "log")
	d.patch(t, `{"op": "replace", "path": "/spec/groups/1/volumeClaimTemplates/0/spec/resources/requests/storage", "value": "512Mi"}`)
	d.isWhole(t, size)
	d.areGone(t, before)
}

func (d *database) grow(t *testing.T) {
	t.Helper()
	d.scale(t, storages+1)
}

func (d *database) shrink(t *testing.T) {
	t.Helper()
	d.scale(t, storages)
}

// scale has as many storage servers as replicas says.
func (d *database) scale(t *testing.T, replicas int) {
	t.Helper()
	d.patch(t, fmt.Sprintf(`{"op": "replace", "path": "/spec/groups/0/replicas", "value": %d}`, replicas))
	d.isWhole(t, replicas+logs)
}

// areReplaced waits until the members of pods are replaced.
func (d *database) areReplaced(t *testing.T, before []corev1.Pod) {
	t.Helper()
	d.until(t, "the replacement of members", func(set *v1alpha1.MemberSet) bool {
		return !slices.ContainsFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return slices.Contains(ids(before), m.ID) })
	})
	d.isWhole(t, size)
}

// areGone fails the test unless no member has one of the ids that pods had.
func (d *database) areGone(t *testing.T, before []corev1.Pod) {
	t.Helper()
	after := ids(d.members(t, ""))
	if slices.ContainsFunc(ids(before), func(id string) bool { return slices.Contains(after, id) }) {
		t.Errorf("%v were to be replaced, and the members are %v", ids(before), after)
	}
}

// areOthers fails the test unless there are other pods of the names that pods had.
func (d *database) areOthers(t *testing.T, before []corev1.Pod) {
	t.Helper()
	after := map[string]types.UID{}
	for _, p := range d.members(t, "") {
		after[p.Name] = p.UID
	}
	for _, p := range before {
		if uid := after[p.Name]; uid == "" || uid == p.UID {
			t.Errorf("pod %s was to be made anew: it was %s, and is %q", p.Name, p.UID, uid)
		}
	}
}

// coordinatesFrom waits until each coordinator that the cluster file names is at a member of the set.
func (d *database) coordinatesFrom(t *testing.T) {
	t.Helper()
	d.until(t, "the coordinators to be at members", func(set *v1alpha1.MemberSet) bool {
		_, coordinators, _ := strings.Cut(strings.TrimSpace(set.Status.ClusterFile), "@")
		addresses := slices.Collect(maps.Values(d.addresses(t)))
		for coordinator := range strings.SplitSeq(coordinators, ",") {
			if !slices.ContainsFunc(addresses, func(ip string) bool { return strings.HasPrefix(coordinator, ip+":") }) {
				return false
			}
		}
		return true
	})
}
