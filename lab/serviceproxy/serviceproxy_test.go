package serviceproxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }

const patience = 5 * time.Minute

func TestServices(t *testing.T) {
	l := testlab.Get(t)
	l.StartRealNodes(t, join.Options{Count: 2})
	l.ServeServices(t)
	ns := l.Namespace(t)
	l.Deployment(t, ns, "web", 2, func(d *appsv1.Deployment) { d.Spec.Template.Spec = testlab.RealPod(t) })
	service := makeService(t, l, ns)
	pods := l.WaitReady(t, ns, testlab.Labels("web"), 2)
	all := []string{pods[0].Name, pods[1].Name}
	slices.Sort(all)

	t.Run("connections are spread over the ready pods", func(t *testing.T) { awaitAnswers(t, service, all) })
	t.Run("pods reach it too", func(t *testing.T) {
		if got := ask(t, podURL(pods[0])+"/fetch?url="+url.QueryEscape(service+"/")); !slices.Contains(all, got) {
			t.Errorf("a pod asked the Service and got %q, want one of %v", got, all)
		}
	})
	t.Run("pods reach the apiserver by the service kubernetes", func(t *testing.T) {
		first := l.Cluster().Services().Addr().Next().String()
		got := ask(t, podURL(pods[0])+"/fetch?url="+url.QueryEscape("http://"+net.JoinHostPort(first, "443")))
		if !strings.Contains(got, "HTTPS server") {
			t.Errorf("a pod asked for what is at the apiserver's address and got %q", got)
		}
	})
	t.Run("it leads past pods that are not ready", func(t *testing.T) {
		setReady(t, pods[0], "false")
		awaitAnswers(t, service, []string{pods[1].Name})
	})
	t.Run("without a ready pod it refuses connections", func(t *testing.T) {
		setReady(t, pods[1], "false")
		awaitRefusal(t, service)
	})
	t.Run("a pod that is ready again is back", func(t *testing.T) {
		setReady(t, pods[0], "true")
		awaitAnswers(t, service, []string{pods[0].Name})
	})
}

func makeService(t *testing.T, l *testlab.Lab, ns string) string {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: testlab.Labels("web"),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	service, err := l.Client().CoreV1().Services(ns).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + service.Spec.ClusterIP
}

func podURL(p *corev1.Pod) string { return "http://" + net.JoinHostPort(p.Status.PodIP, "8080") }

// fresh makes a connection of its own for every request, as only connections are led anywhere.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func try(ctx context.Context, method, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	response, err := fresh.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return strings.TrimSpace(string(body)), err
}

func ask(t *testing.T, url string) string {
	t.Helper()
	got, err := try(t.Context(), http.MethodGet, url)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func setReady(t *testing.T, p *corev1.Pod, value string) {
	t.Helper()
	if _, err := try(t.Context(), http.MethodPost, podURL(p)+"/ready?value="+value); err != nil {
		t.Fatal(err)
	}
}

// awaitAnswers asks until exactly those pods have answered 20 connections in a row. The Service can only be asked:
// nothing reports when the proxy has observed a change.
func awaitAnswers(t *testing.T, service string, want []string) {
	t.Helper()
	var got []string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		got = nil
		for range 20 {
			name, err := try(ctx, http.MethodGet, service+"/")
			if err != nil {
				name = err.Error()
			}
			got = append(got, name)
		}
		slices.Sort(got)
		got = slices.Compact(got)
		return slices.Equal(got, want), nil
	})
	if err != nil {
		t.Fatalf("answers of the Service: got %v, want %v (%v)", got, want, err)
	}
}

func awaitRefusal(t *testing.T, service string) {
	t.Helper()
	address := strings.TrimPrefix(service, "http://") + ":80"
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if last = err; err == nil {
			return false, conn.Close()
		}
		return errors.Is(err, unix.ECONNREFUSED), nil
	})
	if err != nil {
		t.Fatalf("connecting: got %v, want it refused (%v)", last, err)
	}
}
