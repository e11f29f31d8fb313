package webhook

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/share"
	"usher.sh/usher/internal/snapshot"
)

// A tenant whose verdicts take long waits for itself, with the label that governed pods carry or without: another's are made meanwhile,
// and so are answers about pods that nothing governs.
func TestVerdictsOfOneNamespaceLeaveOthersTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.delay = time.Minute
		w.pods["unlabelled"] = testPod("unlabelled")
		delete(w.pods["unlabelled"].Labels, v1alpha1.PolicyLabel)
		h := &disruptionHandler{Options{Facts: w}, share.New(2), share.New(2)}
		decide := func(ctx context.Context, namespace, name string) error {
			pod := w.pods[name].DeepCopy()
			pod.Namespace = namespace
			about := &removal{request: &admissionv1.AdmissionRequest{}, verb: eviction.VerbEvict, pod: snapshot.Key{Namespace: namespace, Name: name}}
			_, err := h.decide(ctx, about, policycache.Subject{Pod: pod, Fresh: true})
			return err
		}
		for range 2 {
			go decide(t.Context(), "shop", "db-0") //nolint:errcheck // they only take their time
		}
		synctest.Wait()
		for _, pod := range []string{"db-0", "unlabelled"} {
			soon, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := decide(soon, "shop", pod); err == nil || !strings.Contains(err.Error(), "namespace shop has 2 under way") {
				t.Errorf("%s as a third at a time: %v", pod, err)
			}
			cancel()
		}
		began := time.Now()
		for namespace, pod := range map[string]string{"other": "db-0", "shop": "web"} {
			if err := decide(t.Context(), namespace, pod); err != nil {
				t.Errorf("%s/%s: %v", namespace, pod, err)
			}
		}
		if took := time.Since(began); took != 2*w.delay {
			t.Errorf("the others waited %s beside their own time", took-2*w.delay)
		}
	})
}

// Verdicts of policies in mode Audit have a share of their own: they keep no other waiting, in their namespace or
// in another.
func TestAuditsLeaveVerdictsTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.delay, w.both = time.Minute, true
		h := &disruptionHandler{Options{Facts: w}, share.New(1), share.New(1)}
		ask := func(ctx context.Context, namespace string, audit bool) error {
			pod := w.pods["db-0"].DeepCopy()
			pod.Namespace = namespace
			about := &removal{request: &admissionv1.AdmissionRequest{}, verb: eviction.VerbEvict, pod: snapshot.Key{Namespace: namespace, Name: "db-0"}}
			var err error
			if audit {
				_, err = h.audit(ctx, about, policycache.Subject{Pod: pod})
			} else {
				_, err = h.decide(ctx, about, policycache.Subject{Pod: pod})
			}
			return err
		}
		go ask(t.Context(), "shop", true) //nolint:errcheck // it only takes its time
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ask(soon, "shop", true); err == nil || !strings.Contains(err.Error(), "namespace shop has 1 under way") {
			t.Errorf("a second audit of the namespace: %v", err)
		}
		for namespace, audit := range map[string]bool{"shop": false, "other": true} {
			began := time.Now()
			if err := ask(t.Context(), namespace, audit); err != nil || time.Since(began) != w.delay {
				t.Errorf("in %s, audited %t: %v after %s", namespace, audit, err, time.Since(began))
			}
		}
	})
}
