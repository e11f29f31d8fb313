package policycache

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

// access resolves what a spec refers to. versions changes when a Secret or a ConfigMap does.
func (k *Observer) access(ctx context.Context, source *Source, refers system.References) (access system.Access, versions string, err error) {
	access = system.Access{Namespace: source.Namespace, Name: source.Name, Timeout: source.timeout(), Loopback: k.config.Loopback, FDBCLI: k.config.FDBCLI}
	access.Secrets, versions, err = k.secrets(ctx, source.Namespace, slices.Concat(secretsOf(refers.Access), refers.Secrets))
	if err == nil && len(refers.ConfigMaps) > 0 {
		var more string
		access.ConfigMaps, more, err = k.configMaps(ctx, source.Namespace, refers.ConfigMaps)
		versions += ";" + more
	}
	if err == nil && refers.Workloads && k.config.Workloads != nil {
		access.Workloads, err = k.config.Workloads(source.Namespace, source.ServiceAccount)
	}
	if err != nil || refers.Access == nil {
		return access, versions, err
	}
	access.Endpoints = endpoints(refers.Access, source.Namespace)
	access.TLS, err = tlsConfig(refers.Access, access.Secrets)
	return access, versions, err
}

// secretsOf lists the entries of Secrets that lead to a system.
func secretsOf(access *v1alpha1.Access) []v1alpha1.SecretKey {
	var keys []v1alpha1.SecretKey
	if access != nil && access.CA != nil {
		keys = append(keys, *access.CA)
	}
	if access != nil && access.ClientCertificate != nil {
		keys = append(keys, certificateKeys(access.ClientCertificate)...)
	}
	return keys
}

func certificateKeys(c *v1alpha1.SecretName) []v1alpha1.SecretKey {
	return []v1alpha1.SecretKey{{Name: c.Name, Key: corev1.TLSCertKey}, {Name: c.Name, Key: corev1.TLSPrivateKeyKey}}
}

// secrets reads each Secret once.
func (k *Observer) secrets(ctx context.Context, namespace string, keys []v1alpha1.SecretKey) (map[v1alpha1.SecretKey][]byte, string, error) {
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

func (k *Observer) secret(ctx context.Context, key snapshot.Key) (*corev1.Secret, error) {
	secret, err := k.config.Secret(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the Secret %q, which the policy refers to, does not exist in namespace %s: create it, or name another in the policy", key.Name, key.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Secret %q: %w", key.Name, err)
	}
	return secret, nil
}

// configMaps reads each entry.
func (k *Observer) configMaps(ctx context.Context, namespace string, keys []v1alpha1.ConfigMapKey) (map[v1alpha1.ConfigMapKey]string, string, error) {
	values := map[v1alpha1.ConfigMapKey]string{}
	var versions []string
	for _, key := range keys {
		found, err := k.config.ConfigMap(ctx, snapshot.Key{Namespace: namespace, Name: key.Name})
		if apierrors.IsNotFound(err) {
			return nil, "", fmt.Errorf("the ConfigMap %q, which the policy refers to, does not exist in namespace %s: create it, or name another in the policy", key.Name, namespace)
		}
		if err != nil {
			return nil, "", fmt.Errorf("reading the ConfigMap %q: %w", key.Name, err)
		}
		value, ok := found.Data[key.Key]
		if !ok {
			return nil, "", fmt.Errorf("the ConfigMap %q, which the policy refers to, has no entry %q: add it, or name another in the policy", key.Name, key.Key)
		}
		values[key] = value
		versions = append(versions, found.Name+"="+string(found.UID)+"/"+found.ResourceVersion)
	}
	return values, strings.Join(versions, ","), nil
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
