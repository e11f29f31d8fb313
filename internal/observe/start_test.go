package observe

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"usher.sh/usher/internal/snapshot"
)

func refuse(client *fake.Clientset, name string, err error) {
	client.PrependReactor("list", name, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func forbidden(user, name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: name}, "", errors.New(`User "`+user+`" cannot list resource "`+name+`" in API group "" at the cluster scope`))
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	cases := map[string]struct {
		resource string
		err      error
		want     []string
	}{
		"no access":                    {"pods", forbidden("bob", "pods"), []string{"reading pods", "may not list", "--verb=list,watch", "--user=bob", "cannot list resource"}},
		"no access, a service account": {"nodes", forbidden("system:serviceaccount:ops:usher", "nodes"), []string{"reading nodes", "--serviceaccount=ops:usher"}},
		"budgets are needed too":       {"poddisruptionbudgets", forbidden("bob", "poddisruptionbudgets"), []string{"reading poddisruptionbudgets.policy", "may not list"}},
		"no policy/v1":                 {"poddisruptionbudgets", apierrors.NewNotFound(schema.GroupResource{}, ""), []string{"does not serve them", "policy/v1"}},
		"credentials that have ended":  {"pods", apierrors.NewUnauthorized("Unauthorized"), []string{"credentials", "log in again"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			refuse(client, c.resource, c.err)
			_, err := Start(t.Context(), client, Options{})
			mustSay(t, err, c.want...)
		})
	}
}

func mustSay(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestStartWithoutAnApiserver(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1", QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), client, Options{})
	mustSay(t, err, "https://127.0.0.1:1", "connection refused", "kubeconfig")
}

// hole is a network in which everything is lost.
type hole struct{}

func (hole) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// overloaded is an apiserver that completes no handshake in time.
type overloaded struct{}

// handshakeTimeout is as net/http has it.
type handshakeTimeout struct{}

func (handshakeTimeout) Error() string   { return "net/http: TLS handshake timeout" }
func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }

func (overloaded) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case <-time.After(10 * time.Second):
		return nil, handshakeTimeout{}
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

func TestStartGivesUpOnSilence(t *testing.T) {
	for name, network := range map[string]http.RoundTripper{"everything is lost": hole{}, "no handshake in time": overloaded{}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://lost.example.com", Transport: network, QPS: -1})
				if err != nil {
					t.Fatal(err)
				}
				const want = "no answer from lost.example.com within 30s"
				_, err = Start(t.Context(), client, Options{})
				mustSay(t, err, want)
				mustSay(t, NewLook(client, &Clock{}).Nodes(t.Context(), labels.Everything()), want)
			})
		})
	}
}

func TestStartStopsWhenAskedTo(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://lost.example.com", Transport: hole{}, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, client, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func podOwnedBy(name, node, apiVersion, kind string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	if kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
	}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

// lists counts the lists of each resource, and what is asked besides lists and watches.
func lists(client *fake.Clientset) map[string]int {
	found := map[string]int{}
	for _, action := range client.Actions() {
		switch action.GetVerb() {
		case "list":
			found[action.GetResource().Resource]++
		case "watch":
		default:
			found[action.GetVerb()]++
		}
	}
	return found
}

func TestWhatCannotBeReadIsAGap(t *testing.T) {
	client := fake.NewClientset(podOwnedBy("p", "a", "apps/v1", "ReplicaSet"))
	refuse(client, "deployments", forbidden("bob", "deployments"))
	o, err := Start(t.Context(), client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Stop()
	o.Read(func(v snapshot.View) {
		gaps := v.Cluster.Gaps()
		if len(gaps) != 1 || gaps[0].Resource != "deployments" || !gaps[0].Final || !strings.Contains(gaps[0].Reason, `User "bob" cannot`) {
			t.Errorf("gaps: %+v", gaps)
		}
	})
	if broken, ok := o.Broken(); ok {
		t.Errorf("a gap is no broken watch: %+v", broken)
	}
}

func TestAPodThatComesLaterBringsWhatItNeeds(t *testing.T) {
	client := fake.NewClientset()
	watched := podsWatched(client, 2)
	o, err := Start(t.Context(), client, Options{Nodes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Stop()
	<-watched
	pod := podOwnedBy("late", "a", "batch/v1", "Job")
	if _, err := client.CoreV1().Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitView(t, o, "the pod, and its kind of owner read", func(v snapshot.View) bool {
		_, gap := v.Cluster.Gap("jobs")
		return len(v.Cluster.PodsOn("a")) == 1 && !gap
	})
	if lists(client)["jobs"] != 1 {
		t.Errorf("requests: %v", lists(client))
	}
	if err := client.CoreV1().Pods("shop").Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitView(t, o, "the pod gone", func(v snapshot.View) bool { return v.Cluster.PodCount() == 0 })
}

// podsWatched is closed once pods are watched by so many watches: the fake client forgets what happens between a list and the watch after it.
func podsWatched(client *fake.Clientset, watches int32) <-chan struct{} {
	opened := make(chan struct{})
	var left atomic.Int32
	left.Store(watches)
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		events, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if left.Add(-1) == 0 {
			close(opened)
		}
		return true, events, err
	})
	return opened
}

func awaitView(t *testing.T, o *Observer, what string, done func(snapshot.View) bool) {
	t.Helper()
	for {
		var ok bool
		o.Read(func(v snapshot.View) { ok = done(v) })
		if ok {
			return
		}
		select {
		case <-o.Changed():
		case <-t.Context().Done():
			t.Fatalf("never saw %s", what)
		}
	}
}
