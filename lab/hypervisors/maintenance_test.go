package hypervisors

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// TestHypervisors takes hosts of a real OpenStack out of service, in turn: there is one, and each case leaves it as it was. Short runs have the first alone, with fewer
// servers.
func TestHypervisors(t *testing.T) {
	r := newRegion(t)
	t.Run("a maintenance empties a host and gives it back", r.maintenanceEmptiesAHost)
	if testing.Short() {
		return
	}
	t.Run("servers that are not moved are named", r.awkwardServersAreNamed)
	t.Run("a maintenance that ends half-way", r.maintenanceEndsHalfway)
	t.Run("two hosts at once, and room for one", r.roomForOne)
	t.Run("agents that kubectl drain evicts", r.kubectlDrains)
	t.Run("a dead host", r.aDeadHost)
}

// two boots an active server and a stopped one on a host, which leave it in different ways, and returns their states.
func (r *region) two(t *testing.T, host string) map[string]string {
	t.Helper()
	web, batch := r.boot(t, "web", host), r.boot(t, "batch", host)
	r.act(t, batch, "os-stop", "stopped")
	return map[string]string{web: "active", batch: "stopped"}
}

// four boots four servers on a host, one of them stopped, and returns their states.
func (r *region) four(t *testing.T, host string) map[string]string {
	t.Helper()
	states := map[string]string{}
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		states[r.boot(t, name, host)] = "active"
	}
	batch := r.boot(t, "batch", host)
	r.act(t, batch, "os-stop", "stopped")
	states[batch] = "stopped"
	return states
}

// five boots the same, and one that is paused, which Nova moves and does not evacuate.
func (r *region) five(t *testing.T, host string) map[string]string {
	t.Helper()
	states, held := r.four(t, host), r.boot(t, "held", host)
	r.act(t, held, "pause", "paused")
	states[held] = "paused"
	return states
}

func (r *region) maintenanceEmptiesAHost(t *testing.T) {
	boot := r.five
	if testing.Short() {
		boot = r.two
	}
	began := time.Now()
	states, things := boot(t, "compute-1"), r.things(t)
	part(t, "the host gets servers, routers, a network and a speaker", began)
	began = time.Now()
	t.Log(r.succeeds(t, "maintain", "compute-1"))
	part(t, "the node is drained", began)
	if left := r.on(t, "compute-1"); len(left) > 0 {
		t.Errorf("the node is drained, and its host has %v", left)
	}
	for _, one := range things {
		if r.isOn(t, one, "compute-1") {
			t.Errorf("the node is drained, and its host has %s %s", one.kind, one.id)
		}
	}
	if s := r.service(t, "compute-1"); s.Status != "disabled" || !strings.Contains(s.Reason, "Usher") {
		t.Errorf("the host of a node in maintenance gets servers: %+v", s)
	}
	r.waitPolicy(t, r.namespace, "all agents of the host to be emptied", func(p *v1alpha1.EvictionPolicy) bool { return len(p.Status.Emptied) == len(agents) })
	began = time.Now()
	r.giveBack(t, "compute-1")
	part(t, "the host is given back", began)
	r.well(t, states, things...)
}

// part logs how long a part has taken.
func part(t *testing.T, what string, began time.Time) {
	t.Helper()
	t.Logf("%s: %.1f s", what, time.Since(began).Seconds())
}

func (r *region) awkwardServersAreNamed(t *testing.T) {
	states := map[string]string{}
	web, asleep, broken := r.boot(t, "web", "compute-1"), r.boot(t, "asleep", "compute-1"), r.boot(t, "broken", "compute-1")
	r.act(t, asleep, "suspend", "suspended")
	call(t, r.nova, http.MethodPost, object{"os-resetState": object{"state": "error"}}, nil, "servers", broken, "action")
	r.becomes(t, broken, "error")
	states[web], states[asleep], states[broken] = "active", "active", "active"
	r.succeeds(t, "maintain", "compute-1", "--wait=false")
	until(t, "what can leave has left", func() bool { return slices.Equal(r.on(t, "compute-1"), []string{"asleep", "broken"}) })
	until(t, "the others are named", func() bool {
		out := r.why(t, "compute-1")
		return strings.Contains(out, asleep) && strings.Contains(out, broken) && strings.Contains(out, "openstack server resume")
	})
	r.act(t, asleep, "resume", "active")
	call(t, r.nova, http.MethodPost, object{"os-resetState": object{"state": "active"}}, nil, "servers", broken, "action")
	t.Log(r.succeeds(t, "maintain", "compute-1"))
	if left := r.on(t, "compute-1"); len(left) > 0 {
		t.Errorf("the node is drained, and its host has %v", left)
	}
	r.giveBack(t, "compute-1")
	r.well(t, states)
}

func (r *region) maintenanceEndsHalfway(t *testing.T) {
	states, things := r.five(t, "compute-1"), r.things(t)
	r.succeeds(t, "maintain", "compute-1", "--wait=false")
	until(t, "the first server has left", func() bool { return len(r.on(t, "compute-1")) < len(states) })
	r.giveBack(t, "compute-1")
	if left := r.on(t, "compute-1"); len(left) == 0 {
		t.Error("all servers have left, although the maintenance was ended")
	}
	r.well(t, states, things...)
}

// roomForOne has a group of which a host takes three: the third host has room for the servers of one of the two others.
func (r *region) roomForOne(t *testing.T) {
	var made struct {
		Group struct{ ID string } `json:"server_group"`
	}
	rules := object{"name": "three", "policy": "anti-affinity", "rules": object{"max_server_per_host": 3}}
	call(t, r.nova, http.MethodPost, object{"server_group": rules}, &made, "os-server-groups")
	undoing(t, r.nova, http.MethodDelete, nil, "os-server-groups", made.Group.ID)
	states := map[string]string{}
	for host, names := range map[string][]string{"compute-1": {"a-1", "a-2", "a-3"}, "compute-2": {"b-1", "b-2", "b-3"}} {
		for _, name := range names {
			states[r.boot(t, name, host, func(o object) { o["os:scheduler_hints"] = object{"group": made.Group.ID} })] = "active"
		}
	}
	for _, host := range []string{"compute-1", "compute-2"} {
		r.succeeds(t, "maintain", host, "--max-parallel", "2", "--wait=false")
	}
	until(t, "there is no room for the rest", func() bool {
		said := r.why(t, "compute-1") + r.why(t, "compute-2")
		return len(r.on(t, "compute-3")) == 3 && strings.Contains(said, "Nova found no valid host for it")
	})
	r.once(t, states)
	r.succeeds(t, "maintain", "--delete", "compute-1")
	t.Log(r.succeeds(t, "maintain", "compute-2", "--max-parallel", "2"))
	if left := r.on(t, "compute-2"); len(left) > 0 {
		t.Errorf("the node is drained, and its host has %v", left)
	}
	r.giveBack(t, "compute-2")
	r.well(t, states)
}

// kubectlDrains has an agent that is no DaemonSet's, whose pod an ordinary kubectl drain evicts: it goes when its host is empty, and the host gets servers again
// when a pod is back.
func (r *region) kubectlDrains(t *testing.T) {
	namespace := r.lab.Namespace(t)
	r.lab.Deployment(t, namespace, "agent", 1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = "compute-2" })
	before := r.lab.WaitReady(t, namespace, testlab.Labels("agent"), 1)[0]
	r.govern(t, namespace, v1alpha1.MemberSelector{
		Role: "nova-compute", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels("agent")}, Controllers: []string{simulated},
	})
	testlab.WaitFor(t, r.lab.Pods(namespace), "the pod to be labelled", func(all []*corev1.Pod) bool {
		return len(all) == 1 && all[0].Labels[v1alpha1.PolicyLabel] == "cloud"
	})
	states := r.five(t, "compute-2")
	out, code := r.kubectl(t, "drain", "compute-2", "--ignore-daemonsets", "--timeout", "5m")
	if left := r.on(t, "compute-2"); code != 0 || len(left) > 0 {
		t.Errorf("kubectl drain ended with %d, and the host has %v:\n%s", code, left, out)
	}
	if _, err := r.lab.Client().CoreV1().Pods(namespace).Get(t.Context(), before.Name, metav1.GetOptions{}); err == nil {
		t.Error("the pod is there after a drain")
	}
	if out, code := r.kubectl(t, "uncordon", "compute-2"); code != 0 {
		t.Fatal(out)
	}
	r.lab.WaitReady(t, namespace, testlab.Labels("agent"), 1)
	r.waitPolicy(t, namespace, "everything to be given back", settled)
	r.well(t, states)
}
