package histories

import (
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/text"
	"usher.sh/usher/test/openstacksim"
)

// evacuations are what is known of those that were asked for beyond what Nova has.
type evacuations struct {
	// looked is when a replica last listed the evacuations of a server, foreign when another client last began one.
	looked, foreign map[string]time.Time
}

// openStackLine carries a replica's calls to a region through the gate. Those by which it logs in are answered at once: others wait for them under a lock.
type openStackLine struct {
	replica *replica
	site    *openStackSite
	cloud   *openstacksim.Cloud
}

// RoundTrip implements http.RoundTripper.
func (l *openStackLine) RoundTrip(request *http.Request) (response *http.Response, err error) {
	if request.URL.Host == "keystone.sim:5000" || strings.TrimSuffix(request.URL.Path, "/") == "/v2.1" {
		return l.cloud.Transport().RoundTrip(request)
	}
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	w := l.replica.world
	label := l.replica.name + " " + request.Method + " " + request.URL.Host + request.URL.Path + "?" + request.URL.RawQuery + " " + short(body)
	err = w.call(request.Context(), l.replica, label, plain, func() error {
		if request.Body = http.NoBody; body != "" {
			request.Body = reader(body)
		}
		server := l.about(request, body)
		response, err = l.cloud.Transport().RoundTrip(request)
		if l.cloud == l.site.cloud && request.Method != http.MethodGet {
			if server != nil {
				l.site.checkEvacuated(l.replica, server)
			}
			l.site.overwritten(strings.TrimPrefix(request.URL.Path, "/v2.1/os-services/service-"))
			w.safety.changed(w, natural, label)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// callTime is how long a call of Usher's to a region may take.
const callTime = 5 * time.Second

// overwritten forgets what an operator has said of a host where Usher has written over it within a call: its look may be from before.
func (s *openStackSite) overwritten(host string) {
	if reason, closed := s.closed[host]; closed && time.Since(s.closing) < callTime && !strings.Contains(s.cloud.Host(host).Reason, reason) {
		delete(s.closed, host)
	}
}

// evacuated is a server before it was asked for, and how many migrations there were.
type evacuated struct {
	openstacksim.Server

	migrations []openstacksim.Migration
}

// about returns the server whose evacuation a call asks for, nil for another call, and takes note of a look at one.
func (l *openStackLine) about(request *http.Request, body string) *evacuated {
	if l.cloud != l.site.cloud {
		return nil
	}
	if id := request.URL.Query().Get("instance_uuid"); id != "" {
		l.site.looked[l.replica.name+" "+id] = time.Now()
	}
	if !strings.HasPrefix(body, `{"evacuate"`) {
		return nil
	}
	id := strings.TrimSuffix(strings.TrimPrefix(request.URL.Path, "/v2.1/servers/"), "/action")
	return &evacuated{l.cloud.Server(id), l.cloud.Migrations()}
}

// fenceKnown is for how long a node that was proven off may be taken for that once it has booted: for as long as one is not read again, and a call takes.
const fenceKnown = 10 * time.Second

// checkEvacuated: a server is evacuated only while its host is proven off, once in a loss, and not while it may run elsewhere. What another client has begun
// since the replica last looked at the server cannot be known.
func (s *openStackSite) checkEvacuated(r *replica, server *evacuated) {
	w := s.world
	looked, looks := s.looked[r.name+" "+server.ID]
	delete(s.looked, r.name+" "+server.ID) // the next call has to look anew
	if len(s.cloud.Migrations()) == len(server.migrations) {
		return
	}
	unseen := looks && s.foreign[server.ID].After(looked)
	w.note("  evacuates %s off %s", server.Name, server.Host)
	if m := s.onHost(server.Host); !m.off && (m.back.IsZero() || time.Since(m.back) > fenceKnown) {
		w.fail("EVACUATED", "%s asks for %s, and its host %s is not proven off", r.name, server.Name, server.Host)
	}
	for i := range server.migrations {
		m := &server.migrations[i]
		switch {
		case m.Server != server.ID:
		case m.Kind == "evacuation" && m.Status == "evacuating" && !unseen:
			w.fail("EVACUATED", "%s asks for %s, which is being evacuated (migration %d)", r.name, server.Name, m.ID)
		case mayHaveArrived(m, &server.Server):
			w.fail("EVACUATED", "%s asks for %s, which may run on %s already (migration %d)", r.name, server.Name, m.Destination, m.ID)
		}
	}
}

// mayHaveArrived reports whether something of a live migration may have arrived at its destination.
func mayHaveArrived(m *openstacksim.Migration, server *openstacksim.Server) bool {
	return m.Kind == "live-migration" && m.Status == "running" && m.Source == server.Host && server.Task == "migrating"
}

// mayRun reports whether a server may run where it was being moved.
func (s *openStackSite) mayRun(server *openstacksim.Server) bool {
	return slices.ContainsFunc(s.cloud.Migrations(), func(m openstacksim.Migration) bool { return m.Server == server.ID && mayHaveArrived(&m, server) })
}

// bringsBack reports whether a key is a policy in which steps stand for nodes that are proven off, at which the manager looks again: their progress shows in what the
// system says alone.
func (r *replica) bringsBack(item work, at time.Time) bool {
	policy, ok := r.cache.objects[policies][item.key].(*v1alpha1.EvictionPolicy)
	return ok && item.controller == policyController && eviction.StandsForLost(&policy.Status) && time.Until(at) <= lostPause
}

// lostPause is the longest between two looks at the steps for nodes that are proven off.
const lostPause = 5 * time.Second

// evacuating reports whether a server is being evacuated.
func (s *openStackSite) evacuating(id string) bool {
	return slices.ContainsFunc(s.cloud.Migrations(), func(m openstacksim.Migration) bool {
		return m.Server == id && m.Kind == "evacuation" && m.Status == "evacuating"
	})
}

// checkEmptied: a member counts as emptied only once nothing is on it. What has come after the evidence may have been observed cannot be known.
func (w *world) checkEmptied(looked time.Time, before, after client.Object) {
	was, ok := before.(*v1alpha1.EvictionPolicy)
	policy, is := after.(*v1alpha1.EvictionPolicy)
	if w.openStack() == nil || !ok || !is {
		return
	}
	for _, e := range policy.Status.Emptied {
		pod := w.store.pod(e.PodName)
		known := slices.ContainsFunc(was.Status.Emptied, func(before v1alpha1.Emptied) bool { return before.PodUID == e.PodUID })
		if known || pod == nil || pod.UID != e.PodUID || !w.judges(policy.Name, e.PodName) || text.Line(pod.Annotations[v1alpha1.BreakGlassAnnotation]) != "" {
			continue
		}
		if why := w.wouldLose(e.PodName); why != "" && w.safety.needed[e.PodName].since.Before(looked.Add(-maxAge)) {
			w.fail("EMPTIED", "policy %s says that %s is emptied, and %s", policy.Name, e.PodName, why)
		}
	}
}

// stayLost lets peace come while machines stay lost, and checks that all of a machine that is proven off is brought back elsewhere, or named.
func (w *world) stayLost() {
	s := w.openStack()
	if s == nil || !slices.ContainsFunc(s.hosts, func(host string) bool { return s.onHost(host).off }) {
		return
	}
	w.note("---- what is lost stays so for a while ----")
	w.settle(staysLost)
	if policy := w.judgesLost(); policy != nil && s.takeMarksOff(policy) {
		w.settle(staysLost)
	}
	policy := w.judgesLost()
	if policy == nil {
		return
	}
	for _, host := range s.hosts {
		if s.onHost(host).off {
			s.checkBroughtBack(policy, host)
		}
	}
}

// staysLost is how long peace lasts while machines stay lost.
const staysLost = 12 * time.Minute

// judgesLost returns the policy that has all brought back that was on a machine that is proven off; nil: none has to.
func (w *world) judgesLost() *v1alpha1.EvictionPolicy {
	policy := w.policy(firstPolicy)
	if w.failed() || policy == nil || policy.DeletionTimestamp != nil || policy.Spec.Suspend || policy.Spec.Audited() || w.policy(secondPolicy) != nil || w.regime.staging {
		return nil
	}
	return policy
}

// checkBroughtBack: of a host that has long been off each server and each thing is elsewhere, or a step says what it waits for.
func (s *openStackSite) checkBroughtBack(policy *v1alpha1.EvictionPolicy, host string) {
	for _, p := range s.plan {
		if s.host(p.pod) != host || p.role == layer2Role || !s.known(policy, p) {
			continue
		}
		stays := s.thing(host)
		if p.role == novaRole {
			stays = s.server(host)
		}
		if stays != "" && !s.saysWhy(policy, p) {
			s.world.fail("LIVENESS", "%s is off, and for long %s without a word", host, stays)
		}
	}
}

// known reports whether a policy can know that a member was on a host: its pod is there, or its step stands, in a role that the policy has.
func (s *openStackSite) known(policy *v1alpha1.EvictionPolicy, p planned) bool {
	if !s.world.claims(policy.Name, p.pod) {
		return false
	}
	pod := s.world.store.pod(p.pod)
	return pod != nil && pod.Spec.NodeName == s.host(p.pod) && pod.Status.Phase != corev1.PodFailed || s.stepStands(policy, p)
}

func (s *openStackSite) stepStands(policy *v1alpha1.EvictionPolicy, p planned) bool {
	step := s.stepOf(policy, p)
	return step != nil && slices.ContainsFunc(policy.Spec.Members, func(m v1alpha1.MemberSelector) bool { return m.Role == step.Role })
}

func (s *openStackSite) stepOf(policy *v1alpha1.EvictionPolicy, p planned) *v1alpha1.PreparationStatus {
	at := slices.IndexFunc(policy.Status.Preparations, func(step v1alpha1.PreparationStatus) bool {
		return step.For == v1alpha1.ForLost && step.ID == s.host(p.pod) && strings.TrimPrefix(step.Role, "own-") == p.role
	})
	if at < 0 {
		return nil
	}
	return &policy.Status.Preparations[at]
}

// saysWhy reports whether the step for a member says what keeps what stays: of servers those that are not evacuated as they are, or that nothing may take them.
func (s *openStackSite) saysWhy(policy *v1alpha1.EvictionPolicy, p planned) bool {
	step := s.stepOf(policy, p)
	if step == nil {
		return false
	}
	if step.Job != "" && strings.Contains(step.Message, "no more are made at a time") {
		return true // its turn comes, as it has before
	}
	for _, said := range []string{"not evacuated as they are", "no other compute host", "not evacuated yet", "no other agent may have", "not given yet"} {
		if strings.Contains(step.Message, said) {
			return true
		}
	}
	s.world.note("%s says: %q", p.pod, step.Message)
	return false
}
