package observe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Many nodes are read at once, not one after the other.
func TestManyNodesAreReadAtOnce(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-0"}})
	var names []string
	for i := range maxNamed + 1 {
		names = append(names, fmt.Sprintf("n-%d", i))
	}
	look := NewLook(client, &Clock{})
	if err := look.CordonsNamed(t.Context(), nil, names); err != nil {
		t.Fatal(err)
	}
	if c := look.View().Cluster; lists(client)["nodes"] != 1 || c.Node("n-0") == nil || c.Partial("nodes") {
		t.Errorf("%d requests, node n-0 is %v", lists(client)["nodes"], c.Node("n-0"))
	}
}

// cordonServer has a node that is cordoned and one that is not, and gives away no more than their metadata.
type cordonServer struct {
	t     *testing.T
	asked []string
}

func (s *cordonServer) RoundTrip(r *http.Request) (*http.Response, error) {
	of := r.URL.Query().Get("fieldSelector")
	if s.asked = append(s.asked, of); !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		s.t.Errorf("asked for %s", r.Header.Get("Accept"))
	}
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for _, name := range []string{"cordoned", "open"} {
		if of == fmt.Sprintf("metadata.name=%s,spec.unschedulable=%t", name, name == "cordoned") {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "7"}})
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		s.t.Error(err)
	}
	return w.Result(), nil
}

// Of a cordon neither what the node runs nor what it reports is read, and of a cordoned node nothing else is asked.
func TestCordonsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		asked         int
		there, closed bool
	}{
		"cordoned": {1, true, true},
		"open":     {2, true, false},
		"none":     {2, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := &cordonServer{t: t}
			of, err := metadata.NewForConfig(&rest.Config{Transport: server})
			if err != nil {
				t.Fatal(err)
			}
			look := NewLook(fake.NewClientset(), &Clock{})
			if err := look.CordonsNamed(t.Context(), of, []string{name}); err != nil {
				t.Fatal(err)
			}
			node := look.View().Cluster.Node(name)
			if len(server.asked) != c.asked || (node != nil) != c.there || node != nil && (node.Unschedulable != c.closed || node.ResourceVersion != "7" || node.Ready || node.ReadyWhy == "") {
				t.Errorf("asked %q, node %+v", server.asked, node)
			}
		})
	}
}
