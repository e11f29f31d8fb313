package governed

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// register is a system with a list of members, to which a member is added by asking for it.
type register struct {
	claim func(member string) *corev1.PersistentVolumeClaim // nil: there is none

	mu      sync.Mutex
	members []string
	asked   []string // with what was there of the member's claim
}

func (r *register) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	member := strings.TrimPrefix(request.URL.Path, "/members/")
	var claimed string
	if request.Method != http.MethodGet {
		if claim := r.claim(member); claim != nil {
			claimed = " " + string(claim.UID)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch request.Method {
	case http.MethodDelete:
		r.members = slices.DeleteFunc(r.members, func(m string) bool { return m == member })
	case http.MethodPut:
		r.members = append(r.members, member)
	default:
		_ = json.NewEncoder(w).Encode(r.members)
		return
	}
	r.asked = append(r.asked, request.Method+" "+member+claimed)
}

// replacementAsksItsSystem: a lost member leaves its system by a step of its policy before its claim goes, and its successor joins by another
// once it is Ready. Neither is asked for a second time.
func (h *house) replacementAsksItsSystem(t *testing.T) {
	t.Parallel()
	l := h.local(t, "db")
	lost := l.pods[2]
	r := &register{members: []string{"db-0", "db-1", "db-2"}}
	r.claim = func(member string) *corev1.PersistentVolumeClaim {
		var claim corev1.PersistentVolumeClaim
		if h.client.Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: "data-" + member}, &claim) != nil {
			return nil
		}
		return &claim
	}
	old := r.claim(lost.Name)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	h.governReplicas(t, l.ns, "db", func(spec *v1alpha1.EvictionPolicySpec) {
		spec.System = v1alpha1.System{HTTP: &v1alpha1.HTTP{
			Access: v1alpha1.Access{Endpoints: []string{server.URL}}, Facts: []v1alpha1.Get{{Name: "members", URL: "/members"}},
			Replace: &v1alpha1.ReplaceSteps{
				Leave: []v1alpha1.ReplaceStep{{Name: "Forget", Do: v1alpha1.Call{Method: "DELETE", URL: "/members/{{member.id}}"}, Done: "!(member.id in system.members)"}},
				Join:  []v1alpha1.ReplaceStep{{Name: "Add", Do: v1alpha1.Call{Method: "PUT", URL: "/members/{{member.id}}"}, Done: "member.id in system.members"}},
			},
		}}
		spec.Members[0].Selector = metav1.LabelSelector{MatchLabels: testlab.Labels("db")}
		spec.Roles = []v1alpha1.Role{{
			Name: "replica", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity},
		}}
	})
	h.removeNode(t, lost)
	q := h.requestReplacement(t, l.ns, "db", lost.Name)
	q = h.waitReplacement(t, l.ns, q.Name, "the member to be replaced", isReplaced)
	if p := q.Status.Predecessor; p == nil || p.LeftTime == nil || p.Registration == nil || p.Registration.ID != lost.Name {
		t.Errorf("what is written down of the predecessor: %+v", p)
	}
	now := r.claim(lost.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if want := []string{"DELETE db-2 " + string(old.UID), "PUT db-2 " + string(now.UID)}; !slices.Equal(r.asked, want) || now.UID == old.UID {
		t.Errorf("asked for %q, want %q", r.asked, want)
	}
}
