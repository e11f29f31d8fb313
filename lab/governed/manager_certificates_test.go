package governed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/lab/testlab"
)

// TestCertificatesFromADirectory: with certificates from a directory the manager makes none of its own, and takes renewed ones over.
func TestCertificatesFromADirectory(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	dir := t.TempDir()
	authority := issue(t, dir)
	h := emptyHouse(t, testlab.Start(t))
	h.managers = h.lab.Managers(t, 1, "--certificates", dir)
	h.trust(t, authority)
	namespace, system := h.lab.Namespace(t), newSystem(t)
	_, pod := h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	asked := func() error {
		return h.lab.Client().PolicyV1().Evictions(namespace).Evict(t.Context(), dryRun(namespace, pod))
	}
	eventually(t, "the verdict", func() bool { return apierrors.IsTooManyRequests(asked()) })

	h.trust(t, issue(t, dir))
	eventually(t, "the verdict under the renewed certificate", func() bool {
		err := asked()
		if err == nil {
			t.Error("an eviction was let through while the certificate was not trusted")
		}
		return apierrors.IsTooManyRequests(err)
	})
	if !h.managers.Runs(0) {
		t.Error("the manager has ended")
	}
	_, err := h.lab.Client().CoreV1().Secrets("usher-system").Get(t.Context(), "usher-webhook-certificate", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Secret of a certificate of its own: %v, want none", err)
	}
}

// trust makes the apiserver trust an authority, as cert-manager's injector does.
func (h *house) trust(t *testing.T, authority []byte) {
	t.Helper()
	guard := validation(t, h)
	before := client.MergeFrom(guard.DeepCopy())
	for i := range guard.Webhooks {
		guard.Webhooks[i].ClientConfig.CABundle = authority
	}
	must(t, h.client.Patch(t.Context(), guard, before))
	var marks admissionv1.MutatingWebhookConfiguration
	must(t, h.client.Get(t.Context(), client.ObjectKey{Name: "usher"}, &marks))
	before = client.MergeFrom(marks.DeepCopy())
	for i := range marks.Webhooks {
		marks.Webhooks[i].ClientConfig.CABundle = authority
	}
	must(t, h.client.Patch(t.Context(), &marks, before))
}

// issue writes tls.crt and tls.key for 127.0.0.1 into a directory, and returns the new authority that signed them.
func issue(t *testing.T, dir string) (authority []byte) {
	t.Helper()
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		}
	}
	ca, leaf := template("authority"), template("usher")
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	leaf.IPAddresses, leaf.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	root, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(t, err)
	signed, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	write := func(name, kind string, der []byte) {
		must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	write("tls.key", "PRIVATE KEY", secret)
	write("tls.crt", "CERTIFICATE", signed)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
}
