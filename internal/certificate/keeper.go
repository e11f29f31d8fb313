package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The entries of the Secret.
const (
	bundleKey       = "ca.crt"
	authorityKeyKey = "ca.key"
)

// Keeper keeps the Secret, the webhook configurations and what is served together.
type Keeper struct {
	// Reader reads the Secret and the webhook configurations, from a cache or not.
	Reader client.Reader
	Writer client.Writer
	// Secret is where the material is kept.
	Secret types.NamespacedName
	// Configurations is the name of the webhook configurations.
	Configurations string
	// Hosts are served beside those of the webhooks.
	Hosts []string
	Terms Terms
	Now   func() time.Time

	serving atomic.Pointer[tls.Certificate]
}

// GetCertificate returns what is to be served, for tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := k.serving.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("no serving certificate yet: it is made once the webhook configurations are there (usher install)")
}

// Ready is a health check: nil when there is a certificate to serve and the apiserver is to trust it.
func (k *Keeper) Ready(*http.Request) error {
	_, err := k.GetCertificate(nil)
	return err
}

// Reconcile renews what is due. The apiserver's configuration is written first, then the new certificate is served.
func (k *Keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	found, err := read(ctx, k.Reader, k.Configurations)
	if err != nil {
		return reconcile.Result{}, err
	}
	hosts := found.hosts()
	if len(hosts) == 0 {
		return reconcile.Result{}, nil // their creation is an event of the watch
	}
	now := k.Now()
	m, next, err := k.material(ctx, append(hosts, k.Hosts...), now)
	if err == nil {
		err = k.publish(ctx, found, m)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil // another replica was faster, and its write is an event of the watch
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: next.Sub(now)}, nil
}

// material returns what is in the Secret, renewed there first where it is due.
func (k *Keeper) material(ctx context.Context, hosts []string, now time.Time) (material, time.Time, error) {
	secret := &corev1.Secret{}
	err := k.Reader.Get(ctx, k.Secret, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return material{}, time.Time{}, fmt.Errorf("reading the certificate's Secret: %w", err)
	}
	old := material{
		Bundle: secret.Data[bundleKey], AuthorityKey: secret.Data[authorityKeyKey],
		Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey],
	}
	m, next, err := renew(old, hosts, now, k.Terms)
	if err != nil || m.equal(old) {
		return m, next, err
	}
	renewed := k.filled(secret, m)
	if missing {
		err = k.Writer.Create(ctx, renewed)
	} else {
		err = k.Writer.Update(ctx, renewed)
	}
	if err != nil {
		return m, next, fmt.Errorf("writing the certificate's Secret: %w", err)
	}
	return m, next, nil
}

func (m material) equal(other material) bool {
	return bytes.Equal(m.Bundle, other.Bundle) && bytes.Equal(m.AuthorityKey, other.AuthorityKey) &&
		bytes.Equal(m.Cert, other.Cert) && bytes.Equal(m.Key, other.Key)
}

// filled returns the Secret with the material in it, at the resource version that was read.
func (k *Keeper) filled(secret *corev1.Secret, m material) *corev1.Secret {
	secret = secret.DeepCopy()
	if secret.Name == "" {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: k.Secret.Namespace, Name: k.Secret.Name}
		secret.Type = corev1.SecretTypeTLS
	}
	secret.Data = map[string][]byte{
		bundleKey: m.Bundle, authorityKeyKey: m.AuthorityKey,
		corev1.TLSCertKey: m.Cert, corev1.TLSPrivateKeyKey: m.Key,
	}
	return secret
}

// publish makes the apiserver trust the authorities, and then serves.
func (k *Keeper) publish(ctx context.Context, all configurations, m material) error {
	for _, c := range all {
		patch, err := c.trust(m.Bundle)
		if err != nil {
			return err
		}
		if patch == nil {
			continue
		}
		if err := k.Writer.Patch(ctx, c.object, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			return fmt.Errorf("writing the webhook configurations: %w", err)
		}
	}
	served, err := tls.X509KeyPair(m.Cert, m.Key)
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	k.serving.Store(&served)
	return nil
}
