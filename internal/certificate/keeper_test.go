package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func newCluster(t *testing.T, faults interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(faults).Build()
}

func bothConfigurations() []client.Object {
	meta := metav1.ObjectMeta{Name: "usher"}
	service := &admissionv1.ServiceReference{Namespace: "usher-system", Name: "usher-webhook"}
	url := "https://127.0.0.1:9443/create"
	return []client.Object{
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{
			{Name: "a.usher.sh", ClientConfig: admissionv1.WebhookClientConfig{Service: service}},
			{Name: "b.usher.sh", ClientConfig: admissionv1.WebhookClientConfig{Service: service}},
		}},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{
			{Name: "c.usher.sh", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}},
		}},
	}
}

func newKeeper(c client.WithWatch, now *time.Time) *Keeper {
	return &Keeper{
		Reader: c, Writer: c, Configurations: "usher", Terms: Default,
		Secret: types.NamespacedName{Namespace: "usher-system", Name: SecretName},
		Now:    func() time.Time { return *now },
	}
}

// bundles returns what each webhook trusts.
func bundles(t *testing.T, c client.Client) [][]byte {
	t.Helper()
	all, err := read(t.Context(), c, "usher")
	if err != nil {
		t.Fatal(err)
	}
	var found [][]byte
	for _, each := range all {
		for _, to := range each.clients {
			found = append(found, to.CABundle)
		}
	}
	return found
}

// trusted fails unless every webhook trusts what the keeper serves.
func trusted(t *testing.T, c client.Client, k *Keeper, at time.Time) {
	t.Helper()
	served, err := k.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(served.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, bundle := range bundles(t, c) {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		for _, host := range hosts {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: at}); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
	}
}

// TestKeepersForYears has two replicas look in turn whenever they are due; each is asked at every moment.
func TestKeepersForYears(t *testing.T) {
	now := begin
	c := newCluster(t, interceptor.Funcs{}, bothConfigurations()...)
	keepers := []*Keeper{newKeeper(c, &now), newKeeper(c, &now)}
	served := map[string]bool{}
	for round := range 40 {
		var next time.Duration
		for _, k := range []*Keeper{keepers[round%2], keepers[(round+1)%2]} {
			result, err := k.Reconcile(t.Context(), reconcile.Request{})
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range keepers {
				if other.Ready(nil) == nil {
					trusted(t, c, other, now)
				}
			}
			next = result.RequeueAfter
			certificate, _ := k.GetCertificate(nil)
			served[string(certificate.Certificate[0])] = true
		}
		if next <= 0 {
			t.Fatal("the keeper does not look again")
		}
		now = now.Add(next)
	}
	if years := now.Sub(begin) / (365 * 24 * time.Hour); years < 3 || len(served) < 15 {
		t.Errorf("%d certificates in %d years", len(served), years)
	}
}

func TestNothingToServe(t *testing.T) {
	now := begin
	c := newCluster(t, interceptor.Funcs{})
	k := newKeeper(c, &now)
	if _, err := k.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if k.Ready(nil) == nil {
		t.Error("ready without webhook configurations")
	}
	if err := c.Get(t.Context(), k.Secret, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret was made without a use: %v", err)
	}
}

// TestServedOnlyWhenTrusted: while the configurations cannot be written, what was served stays.
func TestServedOnlyWhenTrusted(t *testing.T) {
	now, refuse := begin, false
	c := newCluster(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if refuse {
			return errors.New("planted")
		}
		return c.Patch(ctx, o, p, opts...)
	}}, bothConfigurations()...)
	k := newKeeper(c, &now)
	look := func() error { _, err := k.Reconcile(t.Context(), reconcile.Request{}); return err }
	if err := look(); err != nil {
		t.Fatal(err)
	}
	before := served(t, k)
	refuse, now = true, begin.Add(10*365*24*time.Hour) // everything has ended
	if look() == nil {
		t.Fatal("no error although nothing could be written")
	}
	if !bytes.Equal(before, served(t, k)) {
		t.Error("serves what no apiserver trusts")
	}
	refuse = false
	if err := look(); err != nil {
		t.Fatal(err)
	}
	trusted(t, c, k, now)
}

func served(t *testing.T, k *Keeper) []byte {
	t.Helper()
	var certificate *tls.Certificate
	certificate, err := k.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Certificate[0]
}

// TestAnotherReplicaIsFaster: a conflict is no error, and is looked at again.
func TestAnotherReplicaIsFaster(t *testing.T) {
	now := begin
	resource := corev1.Resource("secrets")
	c := newCluster(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewAlreadyExists(resource, SecretName)
	}}, bothConfigurations()...)
	k := newKeeper(c, &now)
	result, err := k.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != time.Second {
		t.Errorf("%+v, %v", result, err)
	}
	for _, bundle := range bundles(t, c) {
		if len(bundle) > 0 {
			t.Error("the configurations trust an authority that is in no Secret")
		}
	}
}

// A host that one replica serves as well is in the certificate of all, and one that does not serve it lets it be.
func TestMoreHosts(t *testing.T) {
	now := begin
	c := newCluster(t, interceptor.Funcs{}, bothConfigurations()...)
	plain, more := newKeeper(c, &now), newKeeper(c, &now)
	more.Hosts = []string{"usher-notices.usher-system.svc"}
	serves := func(k *Keeper) *x509.Certificate {
		t.Helper()
		if _, err := k.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(served(t, k))
		if err != nil {
			t.Fatal(err)
		}
		return leaf
	}
	serves(plain)
	for _, k := range []*Keeper{more, plain, more} {
		leaf := serves(k)
		trusted(t, c, k, now)
		if err := leaf.VerifyHostname("usher-notices.usher-system.svc"); err != nil {
			t.Error(err)
		}
	}
}
