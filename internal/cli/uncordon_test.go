package cli

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// drainedNode is a cordoned node with the record of a drain.
func drainedNode(t *testing.T, record snapshot.DrainRecord) *corev1.Node {
	t.Helper()
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", ResourceVersion: "1", Annotations: map[string]string{snapshot.DrainAnnotation: string(text)}}}
	node.Spec.Unschedulable = true
	return node
}

// nodeServer is an apiserver that has the node a, and Leases. It notes what it is asked for. A patch insists on the version, and makes the
// next one.
type nodeServer struct {
	objects  *fake.Clientset
	barred   string                                         // what may not be listed
	patching func(node *corev1.Node) (runtime.Object, bool) // called before each patch; where it returns true that is the answer, and nothing is patched
	patched  func(node *corev1.Node) (runtime.Object, bool) // called after each patch; where it returns true that is the answer

	mu    sync.Mutex // events are made beside
	asked []string
}

func (s *nodeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+path.Base(r.URL.Path))
	object, err := s.answer(r)
	code := http.StatusOK
	if said := apierrors.APIStatus(nil); err != nil {
		if !errors.As(err, &said) {
			return nil, err
		}
		status := said.Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		object, code = &status, int(status.Code)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (s *nodeServer) answer(r *http.Request) (runtime.Object, error) {
	kind := path.Base(r.URL.Path)
	switch {
	case r.Method == http.MethodGet && kind == s.barred:
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errMayNot)
	case r.Method == http.MethodGet && kind == "nodes":
		return s.list(r)
	case r.Method == http.MethodGet:
		list, err := s.objects.CoordinationV1().Leases(snapshot.LeaseNamespace).List(r.Context(), metav1.ListOptions{})
		list.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}
		return list, err
	case r.Method == http.MethodDelete:
		return success(), s.objects.CoordinationV1().Leases(snapshot.LeaseNamespace).Delete(r.Context(), kind, metav1.DeleteOptions{})
	case r.Method == http.MethodPatch:
		return s.patch(r)
	}
	return success(), nil
}

// list lists the metadata of the nodes that are cordoned, or of those that are not.
func (s *nodeServer) list(r *http.Request) (runtime.Object, error) {
	if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		return nil, apierrors.NewBadRequest("more is asked for than metadata")
	}
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	all, err := s.objects.CoreV1().Nodes().List(r.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for i := range all.Items {
		node := &all.Items[i]
		if selector.Matches(fields.Set{"metadata.name": node.Name, "spec.unschedulable": strconv.FormatBool(node.Spec.Unschedulable)}) {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: node.ObjectMeta})
		}
	}
	return list, nil
}

func success() *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
}

func (s *nodeServer) patch(r *http.Request) (runtime.Object, error) {
	api := s.objects.CoreV1().Nodes()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	node, err := api.Get(r.Context(), "a", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if s.patching != nil {
		if answer, is := s.patching(node); is {
			return answer, nil
		}
		if node, err = api.Update(r.Context(), node, metav1.UpdateOptions{}); err != nil {
			return nil, err
		}
	}
	if !strings.Contains(string(body), `"resourceVersion":"`+node.ResourceVersion+`"`) {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errMayNot)
	}
	next := node.ResourceVersion + "1"
	if node, err = api.Patch(r.Context(), "a", types.MergePatchType, []byte(strings.Replace(string(body), `"resourceVersion":"`+node.ResourceVersion+`"`, `"resourceVersion":"`+next+`"`, 1)), metav1.PatchOptions{}); err != nil {
		return nil, err
	}
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	if s.patched == nil {
		return node, nil
	}
	answer, is := s.patched(node)
	if is {
		return answer, nil
	}
	_, err = api.Update(r.Context(), node, metav1.UpdateOptions{})
	return node, err
}

// read begins usher uncordon on the node.
func (s *nodeServer) read(t *testing.T, here host) (*session, snapshot.View) {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	meta, err := metadata.NewForConfig(&rest.Config{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	of := &session{connection: &connection{client: client, metadata: meta, clock: &observe.Clock{}}, host: here}
	view, _, err := (&uncordonOptions{nodes: []string{"a"}}).read(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return of, view
}

// giveBack runs usher uncordon on the node.
func (s *nodeServer) giveBack(t *testing.T, here host) (code int, words string) {
	t.Helper()
	of, view := s.read(t, here)
	return release(t.Context(), of, view, "a")
}

// giveBack runs usher uncordon on a node of a cluster.
func giveBack(t *testing.T, objects ...runtime.Object) (code int, words string) {
	t.Helper()
	return (&nodeServer{objects: fake.NewClientset(objects...)}).giveBack(t, thisHost())
}

func TestUncordonSaysWhenADrainCountsAsDead(t *testing.T) {
	now := time.Now()
	code, words := giveBack(t, drainedNode(t, snapshot.DrainRecord{
		Drainer: snapshot.Drainer{ID: "x", By: "root@vm", Beat: now.Add(-20 * time.Second)}, State: "draining", Cordoned: true, Since: now.Add(-time.Minute),
	}))
	for _, want := range []string{"root@vm is draining it since ", "stop that drain first; its last sign of life was ", ", and it counts as dead at " + now.Add(40*time.Second).Format(time.TimeOnly) + " if it gives none until then"} {
		if code != exitBlocked || !strings.Contains(words, want) {
			t.Errorf("exit %d, no %q in %q", code, want, words)
		}
	}
}

// leaseOf is the Lease of a drain, of which another process than that of its records may be the holder.
func leaseOf(id string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(id), UID: "lease", ResourceVersion: "1", Labels: map[string]string{snapshot.DrainLabel: id}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("root@vm/7"), RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

// A drain with a Lease counts as dead by that, and its Lease goes with the cordon.
func TestUncordonGoesByTheLease(t *testing.T) {
	now := time.Now()
	record := func(beat time.Duration) snapshot.DrainRecord {
		return snapshot.DrainRecord{
			Drainer: snapshot.Drainer{ID: "x", By: "root@vm", PID: 7, Beat: now.Add(-beat), Lease: true}, State: "draining", Cordoned: true, Since: now.Add(-time.Hour),
		}
	}
	t.Run("in force", func(t *testing.T) {
		code, words := giveBack(t, drainedNode(t, record(time.Hour)), leaseOf("x", now.Add(-20*time.Second)))
		if want := "it counts as dead at " + now.Add(40*time.Second).Format(time.TimeOnly); code != exitBlocked || !strings.Contains(words, want) {
			t.Errorf("exit %d, no %q in %q", code, want, words)
		}
	})
	t.Run("expired", func(t *testing.T) {
		releasedWithLease(t, thisHost(), drainedNode(t, record(time.Hour)), leaseOf("x", now.Add(-time.Minute)))
	})
	t.Run("in force, of a process that was killed here", func(t *testing.T) {
		killed := record(0)
		killed.Boot = "kernel/500"
		releasedWithLease(t, host{boot: "kernel", start: func(int) string { return "" }}, drainedNode(t, killed), leaseOf("x", now))
	})
	t.Run("that may not be read", func(t *testing.T) {
		s := &nodeServer{objects: fake.NewClientset(drainedNode(t, record(5*time.Minute)), leaseOf("x", now)), barred: "leases"}
		code, words := s.giveBack(t, thisHost())
		if code != exitBlocked || !strings.Contains(words, "its Lease cannot be read") || !strings.Contains(words, "so it counts as dead at "+now.Add(10*time.Minute).Format(time.TimeOnly)) {
			t.Errorf("exit %d, %q", code, words)
		}
	})
}

// A drain that was alive when its Lease was read is not taken for dead later, whatever has kept the command meanwhile: its Lease was
// renewed since, which changes no node.
func TestUncordonGoesByTheMomentOfReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		record := snapshot.DrainRecord{
			Drainer: snapshot.Drainer{ID: "x", By: "root@vm", Beat: now.Add(-time.Minute), Lease: true}, State: "draining", Cordoned: true, Since: now,
		}
		s := &nodeServer{objects: fake.NewClientset(drainedNode(t, record), leaseOf("x", now.Add(-20*time.Second)))}
		of, view := s.read(t, thisHost())
		<-time.After(2 * snapshot.LiveFor)
		if code, words := release(t.Context(), of, view, "a"); code != exitBlocked || !strings.Contains(words, "is draining it") {
			t.Errorf("exit %d, %q", code, words)
		}
	})
}

// releasedWithLease checks that a node is given back, and its drain's Lease goes with that.
func releasedWithLease(t *testing.T, here host, objects ...runtime.Object) {
	t.Helper()
	s := &nodeServer{objects: fake.NewClientset(objects...)}
	if code, words := s.giveBack(t, here); code != exitDone {
		t.Errorf("exit %d, %q", code, words)
	}
	left, err := s.objects.CoordinationV1().Leases(snapshot.LeaseNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d Leases are left: %v", len(left.Items), err)
	}
}

// A node on which a cordon stays is not back.
func TestUncordonOfACordonThatStays(t *testing.T) {
	record := snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: "x", By: "root@vm"}, State: "drained"}
	again := drainedNode(t, record)
	delete(again.Annotations, snapshot.DrainAnnotation)
	for name, node := range map[string]*corev1.Node{"with a record": drainedNode(t, record), "without": again} {
		code, words := giveBack(t, node)
		if code != exitBlocked || !strings.Contains(words, "kubectl uncordon a removes that") {
			t.Errorf("%s: exit %d, %q", name, code, words)
		}
	}
}

// A node counts as given back once the apiserver has shown it so: in its answer to the patch, or to another reading.
func TestUncordonIsDoneWhenItIsSeen(t *testing.T) {
	const (
		read, patch, event = "GET nodes", "PATCH a", "POST events" // one reading of what is cordoned, and one more of what is not
		back               = "uncordoned; it was cordoned by usher for root@vm"
	)
	times := func(n int, do func(*corev1.Node) (runtime.Object, bool)) func(*corev1.Node) (runtime.Object, bool) {
		return func(node *corev1.Node) (runtime.Object, bool) {
			if n--; n < 0 {
				return nil, false
			}
			return do(node)
		}
	}
	failure := func(code int32) func(*corev1.Node) (runtime.Object, bool) {
		return func(*corev1.Node) (runtime.Object, bool) {
			return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: "not that", Code: code}, true
		}
	}
	cases := map[string]struct {
		server *nodeServer
		code   int
		words  string
		asked  []string
	}{
		"the answer shows it": {words: back, asked: []string{read, patch, event}},
		"the answer shows nothing": {
			server: &nodeServer{patched: func(*corev1.Node) (runtime.Object, bool) { return success(), true }},
			words:  back, asked: []string{read, patch, event, read, read},
		},
		"the node has changed since it was read": {
			server: &nodeServer{patching: times(2, func(node *corev1.Node) (runtime.Object, bool) { node.ResourceVersion += "2"; return nil, false })},
			words:  back, asked: []string{read, patch, read, patch, read, patch, event},
		},
		"the answer is lost, and the patch with it": {
			server: &nodeServer{patching: times(1, failure(http.StatusServiceUnavailable))},
			words:  back, asked: []string{read, patch, read, patch, event},
		},
		"the answer is lost": {
			server: &nodeServer{patched: failure(http.StatusServiceUnavailable)},
			words:  "it is schedulable", asked: []string{read, patch, read, read},
		},
		"a failure in the body": {
			server: &nodeServer{patching: failure(0)},
			code:   exitUsage, words: "not changed: not that", asked: []string{read, patch},
		},
		"cordoned anew": {
			server: &nodeServer{patched: func(node *corev1.Node) (runtime.Object, bool) { node.Spec.Unschedulable = true; return nil, false }},
			code:   exitBlocked,
			words:  "usher's cordon was removed, and the node has one again: it was cordoned by another client, not by usher; kubectl uncordon a removes that",
			asked:  []string{read, patch, event},
		},
		"drained anew by the time that it is read": {
			server: &nodeServer{patching: times(1, func(node *corev1.Node) (runtime.Object, bool) {
				node.ResourceVersion += "2"
				node.Annotations[snapshot.DrainAnnotation] = strings.Replace(node.Annotations[snapshot.DrainAnnotation], `"drained"`, `"draining"`, 1)
				return nil, false
			})},
			code: exitBlocked, words: "root@vm is draining it since", asked: []string{read, patch, read},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				record := snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: "x", By: "root@vm", Beat: now}, State: "drained", Cordoned: true, Since: now}
				if c.server == nil {
					c.server = &nodeServer{}
				}
				c.server.objects = fake.NewClientset(drainedNode(t, record))
				code, words := c.server.giveBack(t, thisHost())
				if code != c.code || !strings.HasPrefix(words, c.words) {
					t.Errorf("exit %d, %q; want %d, %q", code, words, c.code, c.words)
				}
				slices.Sort(c.asked) // events are made beside
				slices.Sort(c.server.asked)
				if diff := cmp.Diff(c.asked, c.server.asked); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// What keeps the record on the node has no node patched without end, nor without pauses.
func TestUncordonThatIsUndoneEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: "x", By: "root@vm"}, State: "drained", Cordoned: true}
		was := drainedNode(t, record)
		s := &nodeServer{objects: fake.NewClientset(was), patched: func(node *corev1.Node) (runtime.Object, bool) {
			node.Annotations, node.Spec.Unschedulable = was.Annotations, true
			return nil, false
		}}
		began := time.Now()
		code, words := s.giveBack(t, thisHost())
		if code != exitUsage || !strings.HasPrefix(words, "not seen to change within 15s") || time.Since(began) != releasePatience || len(s.asked) > 40 {
			t.Errorf("exit %d after %s and %d requests, %q", code, time.Since(began), len(s.asked), words)
		}
	})
}

// A node that cannot be read again is not said to be back.
func TestUncordonThatCannotBeSeen(t *testing.T) {
	record := snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: "x", By: "root@vm"}, State: "drained", Cordoned: true}
	s := &nodeServer{objects: fake.NewClientset(drainedNode(t, record))}
	s.patched = func(*corev1.Node) (runtime.Object, bool) {
		s.barred = "nodes"
		return success(), true
	}
	if code, words := s.giveBack(t, thisHost()); code != exitUsage || !strings.HasPrefix(words, "not seen to change: ") {
		t.Errorf("exit %d, %q", code, words)
	}
}
