package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// caller asks the webhooks themselves, as the apiserver does: by HTTP/1.1, on connections that are kept.
type caller struct {
	client *http.Client
	urls   []string
}

func newCaller(authorities *x509.CertPool, urls []string) *caller {
	return &caller{urls: urls, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authorities, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 25, // the apiserver's
	}}}
}

// callReplicas returns a caller of all replicas.
func (st *stage) callReplicas(ctx context.Context) (*caller, error) {
	config, err := st.lab.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "usher", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the webhooks' authority: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(config.Webhooks[0].ClientConfig.CABundle) {
		return nil, errors.New("reading the webhooks' authority: there is no certificate in it")
	}
	urls := make([]string, len(st.managers.Replicas))
	for i, r := range st.managers.Replicas {
		urls[i] = "https://" + r.Webhook + "/leave?timeout=10s"
	}
	return newCaller(authorities, urls), nil
}

// ask sends a question to the replicas in turn, and returns the answer as the audit log would have it.
func (c *caller) ask(ctx context.Context, i int, q question) (string, error) {
	review, err := c.send(ctx, i, q)
	if err != nil {
		return "", err
	}
	return q.kind + ": " + review.Response.AuditAnnotations["answer"], nil
}

func (c *caller) send(ctx context.Context, i int, q question) (*admissionv1.AdmissionReview, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.urls[i%len(c.urls)], bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(response.Body).Decode(review); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return review, nil
}

// question is an AdmissionReview as it is sent.
type question struct {
	kind string
	body []byte
}

// asked says what is asked about a pod.
type asked struct {
	operation admissionv1.Operation
	dryRun    bool
}

func (a asked) about(pod *corev1.Pod) (question, error) {
	r := &admissionv1.AdmissionRequest{
		UID: types.UID("review-of-" + pod.UID), Namespace: pod.Namespace, Name: pod.Name, Operation: a.operation, DryRun: &a.dryRun,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		UserInfo: authenticationv1.UserInfo{Username: "drainer", Groups: []string{"system:authenticated"}},
	}
	kind := "DELETE"
	var err error
	if a.operation == admissionv1.Create {
		kind, r.SubResource = "eviction", "eviction"
		r.Object.Raw, err = json.Marshal(policyv1.Eviction{
			TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		})
	} else {
		old := pod.DeepCopy()
		old.APIVersion, old.Kind = "v1", "Pod"
		r.OldObject.Raw, err = json.Marshal(old)
		r.Options = runtime.RawExtension{Raw: []byte(`{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions"}`)}
	}
	if err != nil {
		return question{}, err
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r,
	})
	if a.dryRun {
		kind += ", dry run"
	}
	return question{kind + ", " + pod.Labels[roleLabel], body}, err
}

// listPods returns the pods of a role.
func (st *stage) listPods(ctx context.Context, namespace, role string) ([]corev1.Pod, error) {
	list, err := st.lab.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: roleLabel + "=" + role})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return list.Items, nil
}
