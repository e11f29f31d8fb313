package webhook

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack"
)

// TestPolicyWarnings: policy db of the namespace shop asks http://db:1.
func TestPolicyWarnings(t *testing.T) {
	endpoints := func(all ...string) func(*v1alpha1.System) {
		return func(s *v1alpha1.System) { s.HTTP.Endpoints = all }
	}
	service := func(name string, port int32) func(*v1alpha1.System) {
		return func(s *v1alpha1.System) {
			s.HTTP.Endpoints, s.HTTP.Service = nil, &v1alpha1.Service{Name: name, Port: port}
		}
	}
	const same = "policies other and db ask the same system (db:1)"
	limits := v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: 5 * time.Second}}
	for name, c := range map[string]struct {
		given    func(*v1alpha1.System)
		evidence v1alpha1.EvidenceLimits
		want     string
	}{
		"another host":          {given: endpoints("http://queue:1")},
		"another port":          {given: endpoints("http://db:2")},
		"another namespace":     {given: endpoints("http://db.stage.svc:1")},
		"the same":              {given: endpoints("http://queue:1", "http://db:1"), want: same},
		"written otherwise":     {given: endpoints("https://DB.shop.svc.cluster.local.:1/path"), want: same},
		"its Service":           {given: service("db", 1), want: same},
		"another Service":       {given: service("queue", 1)},
		"young beyond patience": {given: endpoints("http://q:1"), evidence: limits, want: "(1s) is shorter than"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := testPolicy()
			policy.Name = "other"
			policy.Spec.Members[0].Selector.MatchLabels["app"] = "other"
			c.given(&policy.Spec.System)
			policy.Spec.Evidence = c.evidence
			raw, err := json.Marshal(policy)
			if err != nil {
				t.Fatal(err)
			}
			got := newWorld(t).warningsOf(policy.Name, raw)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
				t.Errorf("warnings %q, want %q", got, c.want)
			}
		})
	}
}

func TestStepThatIsRenamedWhileItIsBegun(t *testing.T) {
	policy := testPolicy()
	policy.Name, policy.Spec.System.HTTP.Endpoints = "other", []string{"http://q:1"}
	policy.Spec.Members[0].Selector.MatchLabels["app"] = "other"
	policy.Spec.System.HTTP.Steps = []v1alpha1.Step{{Name: "Flush", Do: v1alpha1.Call{Method: "POST", URL: "/flush"}}}
	policy.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: v1alpha1.MemberRef{ID: "a"}, Name: "Flush"}, {MemberRef: v1alpha1.MemberRef{ID: "b"}, Name: "Empty"}}
	raw, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	got := newWorld(t).warningsOf(policy.Name, raw)
	if len(got) != 1 || !strings.Contains(got[0], "Empty of b was begun and the policy has no such step any more") {
		t.Errorf("warnings %q", got)
	}
}

// warningsOf writes a policy.
func (w *world) warningsOf(name string, raw []byte) []string {
	w.t.Helper()
	return w.written(name, raw).Warnings
}

func (w *world) written(name string, raw []byte) *admissionv1.AdmissionResponse {
	w.t.Helper()
	return w.post(PathPolicy, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1","operation":"CREATE","namespace":"shop","name":"`+
		name+`","object":`+string(raw)+`}}`)
}

// A policy that no replica has room for is refused before it is compiled.
func TestPolicyThatIsTooLarge(t *testing.T) {
	for size, refused := range map[int]bool{mostSpec / 2: false, mostSpec: true} {
		policy := testPolicy()
		policy.Name, policy.Spec.Roles[0].Description = "other", strings.Repeat("x", size)
		policy.Spec.Members[0].Selector.MatchLabels["app"] = "other"
		raw, err := json.Marshal(policy)
		if err != nil {
			t.Fatal(err)
		}
		got := newWorld(t).written(policy.Name, raw)
		if got.Allowed == refused || refused && !strings.Contains(got.Result.Message, "spec: Too long: may not be more than 65536 bytes") {
			t.Errorf("%d bytes: %+v", size, got)
		}
	}
}

// A policy keeps to its region while something is begun there: in another it could not be taken back.
func TestPolicyThatMovesToAnotherRegion(t *testing.T) {
	h := &policyHandler{Options{Kind: func(spec *v1alpha1.System) (system.Kind, bool) {
		return system.Of([]system.Kind{openstack.Kind()}, spec)
	}}}
	before := v1alpha1.EvictionPolicy{Spec: v1alpha1.EvictionPolicySpec{System: v1alpha1.System{OpenStack: &v1alpha1.OpenStack{Region: "North"}}}}
	for name, c := range map[string]struct {
		begun   []v1alpha1.PreparationStatus
		change  func(*v1alpha1.System)
		refused bool
	}{
		"another region":      {[]v1alpha1.PreparationStatus{{Name: "MoveServers", MemberRef: v1alpha1.MemberRef{ID: "compute-1"}}}, func(s *v1alpha1.System) { s.OpenStack.Region = "South" }, true},
		"another cloud":       {[]v1alpha1.PreparationStatus{{Name: "MoveServers"}}, func(s *v1alpha1.System) { s.OpenStack.Cloud = "other" }, true},
		"another kind":        {[]v1alpha1.PreparationStatus{{Name: "MoveServers"}}, func(s *v1alpha1.System) { *s = v1alpha1.System{HTTP: &v1alpha1.HTTP{}} }, true},
		"nothing is begun":    {nil, func(s *v1alpha1.System) { s.OpenStack.Region = "South" }, false},
		"a Secret is renewed": {[]v1alpha1.PreparationStatus{{Name: "MoveServers"}}, func(s *v1alpha1.System) { s.OpenStack.Clouds.Name, s.OpenStack.MigrationsAtOnce = "new", 3 }, false},
	} {
		old, after := before.DeepCopy(), before.DeepCopy()
		old.Status.Preparations = c.begun
		c.change(&after.Spec.System)
		raw, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		got := h.leaves(raw, after)
		if (len(got) > 0) != c.refused || c.refused && got[0].Field != "spec.system.openstack" {
			t.Errorf("%s: %v", name, got)
		}
	}
}
