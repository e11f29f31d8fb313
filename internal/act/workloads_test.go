package act

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/snapshot"
)

// busyDeployment is an apiserver with a Deployment whose controller writes its status after each of the first writes.
type busyDeployment struct {
	version, replicas int
	busy              int // writes of the controller to come
	theirs            int // replicas that another client sets with the first of them; 0: none does
	received          []string
}

func (b *busyDeployment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var sent struct {
		Metadata struct{ ResourceVersion string }
		Spec     struct{ Replicas *int }
	}
	_ = json.NewDecoder(r.Body).Decode(&sent)
	_, what, _ := strings.Cut(r.URL.Path, "/deployments/web")
	b.received = append(b.received, "mark"+what)
	w.Header().Set("Content-Type", "application/json")
	if sent.Metadata.ResourceVersion != "" && sent.Metadata.ResourceVersion != fmt.Sprint(b.version) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict})
		return
	}
	if sent.Spec.Replicas != nil {
		b.replicas = *sent.Spec.Replicas
	}
	b.version++
	_, _ = fmt.Fprintf(w, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","resourceVersion":"%d"},"spec":{"replicas":%d}}`, b.version, b.replicas)
	if b.busy > 0 {
		b.busy--
		b.version++
		if b.theirs > 0 {
			b.replicas = b.theirs
		}
	}
}

// A record that is written, and replicas that are not, say that another client has set these: what the workload's own controllers write in
// between must not leave it so.
func TestScalingGoesOnBesideTheWorkloadsControllers(t *testing.T) {
	const mark, scale = "mark", "mark/scale"
	for name, c := range map[string]struct {
		busy, theirs int
		want         []string
		replicas     int
		conflict     bool
	}{
		"nothing else is written":     {0, 0, []string{mark, scale}, 2, false},
		"its status is":               {1, 0, []string{mark, scale, mark, scale}, 2, false},
		"its status is, all the time": {9, 0, []string{mark, scale, mark, scale, mark, scale, mark, scale}, 1, true},
		"another client scales it":    {1, 5, []string{mark, scale, mark}, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := &busyDeployment{version: 1, replicas: 1, busy: c.busy, theirs: c.theirs}
			s := httptest.NewServer(server)
			t.Cleanup(s.Close)
			client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
			mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
			workload := &snapshot.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "1", Replicas: 1}
			w := &Workloads{Dynamic: client, Mapper: mapper}
			err = w.Scale(t.Context(), workload, 2, &snapshot.SurgeRecord{Drainer: snapshot.Drainer{ID: snapshot.ManagerID}, Was: 1, To: 2})
			if apierrors.IsConflict(err) != c.conflict || (err != nil) != c.conflict {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(c.want, server.received); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if server.replicas != c.replicas {
				t.Errorf("%d replicas, want %d", server.replicas, c.replicas)
			}
		})
	}
}
