package evidence

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// access resolves what the policy's spec refers to. versions tells whether a Secret has changed since.
func (k *Keeper) access(ctx context.Context, policy *v1alpha1.EvictionPolicy) (access system.Access, versions string, err error) {
	spec := &policy.Spec.System
	common := accessOf(spec)
	if common == nil {
		return system.Access{}, "", fmt.Errorf("spec.system names no system")
	}
	wanted := secretsOf(spec)
	values, versions, err := k.secrets(ctx, policy.Namespace, wanted)
	if err != nil {
		return system.Access{}, "", err
	}
	config, err := tlsConfig(common, values)
	if err != nil {
		return system.Access{}, "", err
	}
	return system.Access{
		Endpoints: endpoints(common, policy.Namespace),
		TLS:       config,
		Secrets:   values,
		Timeout:   patienceOf(policy),
		Loopback:  k.config.Loopback,
	}, versions, nil
}

func accessOf(spec *v1alpha1.System) *v1alpha1.Access {
	switch {
	case spec.ArangoDB != nil:
		return &spec.ArangoDB.Access
	case spec.Etcd != nil:
		return &spec.Etcd.Access
	case spec.HTTP != nil:
		return &spec.HTTP.Access
	}
	return nil
}

// secretsOf lists every entry of a Secret that the spec refers to.
func secretsOf(spec *v1alpha1.System) []v1alpha1.SecretKey {
	var keys []v1alpha1.SecretKey
	add := func(key *v1alpha1.SecretKey) {
		if key != nil {
			keys = append(keys, *key)
		}
	}
	common := accessOf(spec)
	add(common.CA)
	if c := common.ClientCertificate; c != nil {
		keys = append(keys, certificateKeys(c)...)
	}
	switch {
	case spec.ArangoDB != nil:
		add(spec.ArangoDB.JWT)
	case spec.Etcd != nil && spec.Etcd.Auth != nil:
		name := spec.Etcd.Auth.Name
		keys = append(keys, v1alpha1.SecretKey{Name: name, Key: corev1.BasicAuthUsernameKey},
			v1alpha1.SecretKey{Name: name, Key: corev1.BasicAuthPasswordKey})
	case spec.HTTP != nil:
		for i := range spec.HTTP.Headers {
			add(spec.HTTP.Headers[i].Secret)
		}
	}
	return keys
}

func certificateKeys(c *v1alpha1.SecretName) []v1alpha1.SecretKey {
	return []v1alpha1.SecretKey{{Name: c.Name, Key: corev1.TLSCertKey}, {Name: c.Name, Key: corev1.TLSPrivateKeyKey}}
}

// secrets reads each Secret once.
func (k *Keeper) secrets(ctx context.Context, namespace string, keys []v1alpha1.SecretKey) (map[v1alpha1.SecretKey][]byte, string, error) {
	values := map[v1alpha1.SecretKey][]byte{}
	read := map[string]*corev1.Secret{}
	var versions []string
	for _, key := range keys {
		secret, ok := read[key.Name]
		if !ok {
			var err error
			if secret, err = k.secret(ctx, snapshot.Key{Namespace: namespace, Name: key.Name}); err != nil {
				return nil, "", err
			}
			read[key.Name] = secret
			versions = append(versions, secret.Name+"="+string(secret.UID)+"/"+secret.ResourceVersion)
		}
		value, ok := secret.Data[key.Key]
		if !ok {
			return nil, "", fmt.Errorf("the Secret %q, which the policy refers to, has no entry %q: add it, or name another in the policy", key.Name, key.Key)
		}
		values[key] = value
	}
	slices.Sort(versions)
	return values, strings.Join(versions, ","), nil
}

func (k *Keeper) secret(ctx context.Context, key snapshot.Key) (*corev1.Secret, error) {
	secret, err := k.config.Secret(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the Secret %q, which the policy refers to, does not exist in namespace %s: create it, or name another in the policy", key.Name, key.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Secret %q: %w", key.Name, err)
	}
	return secret, nil
}

func endpoints(access *v1alpha1.Access, namespace string) []string {
	if access.Service == nil {
		return access.Endpoints
	}
	scheme := access.Service.Scheme
	if scheme == "" {
		scheme = "https"
	}
	host := access.Service.Name + "." + namespace + ".svc"
	return []string{scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(access.Service.Port)))}
}

// tlsConfig returns nil where the spec asks for nothing but the default.
func tlsConfig(access *v1alpha1.Access, values map[v1alpha1.SecretKey][]byte) (*tls.Config, error) {
	if access.CA == nil && access.ClientCertificate == nil && access.ServerName == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: access.ServerName}
	if access.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(values[*access.CA]) {
			return nil, fmt.Errorf("entry %q of the Secret %q holds no certificate in PEM", access.CA.Key, access.CA.Name)
		}
	}
	if c := access.ClientCertificate; c != nil {
		keys := certificateKeys(c)
		pair, err := tls.X509KeyPair(values[keys[0]], values[keys[1]])
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate in the Secret %q: %w", c.Name, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
