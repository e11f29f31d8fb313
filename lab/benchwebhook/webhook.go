package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	workers   = 8
	fullSpeed = 10 * time.Second
)

// exam is the questions that are asked at the webhook, in turn. Of ten, six are about members and four about routers.
// None of them writes anything: members are asked about by dry runs, and routers may always go.
func (st *stage) exam(ctx context.Context) ([]question, error) {
	memberPods, err := st.listPods(ctx, governedNamespace, memberRole)
	if err != nil {
		return nil, err
	}
	routerPods, err := st.listPods(ctx, governedNamespace, routerRole)
	if err != nil {
		return nil, err
	}
	const evict, remove = admissionv1.Create, admissionv1.Delete
	var all []question
	for i := range memberPods {
		m, r := &memberPods[i], &routerPods[i%len(routerPods)]
		for _, q := range []struct {
			asked
			pod *corev1.Pod
		}{
			{asked{evict, true}, m},
			{asked{evict, false}, r},
			{asked{evict, true}, m},
			{asked{remove, true}, m},
			{asked{remove, false}, r},
		} {
			written, err := q.about(q.pod)
			if err != nil {
				return nil, err
			}
			all = append(all, written)
		}
	}
	return all, nil
}

func measureWebhook(ctx context.Context, st *stage, f *figures) error {
	return st.measureReplicas(ctx, &f.webhook, func(send sender) (*load, error) {
		return paced(ctx, "webhook", send)
	})
}

func measureFullSpeed(ctx context.Context, st *stage, f *figures) error {
	return st.measureReplicas(ctx, &f.fullSpeed, func(send sender) (*load, error) {
		return unpaced(ctx, "webhook, full speed", workers, fullSpeed, send)
	})
}

func (st *stage) measureReplicas(ctx context.Context, place **load, do func(sender) (*load, error)) error {
	c, err := st.callReplicas(ctx)
	if err != nil {
		return err
	}
	send, err := st.examiner(ctx, c)
	if err != nil {
		return err
	}
	err = st.watched(ctx, place, func() (*load, error) { return do(send) })
	if ended := st.managers.Ended(); err != nil && ended != nil {
		return fmt.Errorf("%w: %w", err, ended)
	}
	return err
}

// measureFloor asks a server that answers at once, which takes what the connections and the machine take, and one that does
// before what safety asks for: it reads the pods that may leave from the apiserver.
func measureFloor(ctx context.Context, st *stage, f *figures) error {
	err := st.measureServer(ctx, &f.floor, "a server that answers at once", func(r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		return err
	})
	if err != nil {
		return err
	}
	return st.measureServer(ctx, &f.reading, "a server that reads the pods", st.readPod)
}

func (st *stage) measureServer(ctx context.Context, place **load, name string, read func(*http.Request) error) error {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := read(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		allow(w)
	}))
	defer server.Close()
	authorities := x509.NewCertPool()
	authorities.AddCert(server.Certificate())
	send, err := st.examiner(ctx, newCaller(authorities, []string{server.URL}))
	if err != nil {
		return err
	}
	return st.watched(ctx, place, func() (*load, error) { return paced(ctx, name, send) })
}

// readPod reads the pod whose eviction is asked for where that is no dry run, as the webhook does.
func (st *stage) readPod(r *http.Request) error {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return err
	}
	if about := review.Request; about.SubResource == "eviction" && !*about.DryRun {
		_, err := st.lab.Client.CoreV1().Pods(about.Namespace).Get(r.Context(), about.Name, metav1.GetOptions{})
		return err
	}
	return nil
}

func allow(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"1","allowed":true,"auditAnnotations":{"answer":"yes"}}}`)
}

// examiner returns a sender of the exam. It opens the connections, so that no measured answer waits for one.
func (st *stage) examiner(ctx context.Context, c *caller) (sender, error) {
	questions, err := st.exam(ctx)
	if err != nil {
		return nil, err
	}
	send := func(ctx context.Context, i int) (string, error) { return c.ask(ctx, i, questions[i%len(questions)]) }
	_, err = unpaced(ctx, "warming up", workers, time.Second, send)
	return send, err
}

// watched puts a load into place, with what it did to the managers and the system.
func (st *stage) watched(ctx context.Context, place **load, do func() (*load, error)) error {
	before, err := usageOf(ctx, st.managers)
	if err != nil {
		return err
	}
	calls := st.database.calls.Load()
	l, err := do()
	if err != nil {
		return err
	}
	l.before, l.observations = before, st.database.calls.Load()-calls
	*place = l
	fmt.Printf("  %s: %d answers, p50 %s, p99 %s\n", l.name, len(l.times), ms(l.quantile(0.5)), ms(l.quantile(0.99)))
	l.after, err = usageOf(ctx, st.managers)
	return err
}
