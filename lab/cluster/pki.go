package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// lifetime of the lab's certificates; a lab is thrown away long before.
const lifetime = 365 * 24 * time.Hour

// KeyPair is a certificate and its key, both in PEM.
type KeyPair struct {
	Cert, Key []byte
}

// makeCA writes a new certificate authority to ca.crt and ca.key.
func (c *Cluster) makeCA() error {
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	// From the past, for a machine whose clock is set back a little while a lab runs.
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "usher-lab", NotBefore: time.Now().Add(-time.Hour)}, key)
	if err != nil {
		return fmt.Errorf("making the lab's certificate authority: %w", err)
	}
	pem, err := certutil.EncodeCertificates(cert)
	if err != nil {
		return err
	}
	return c.writeKeyPair("ca", KeyPair{Cert: pem, Key: keyPEM})
}

// ClientCert makes a certificate that the apiserver takes for the user, a member of groups. kubelets take it too.
func (c *Cluster) ClientCert(user string, groups ...string) (KeyPair, error) {
	return c.issue(x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (c *Cluster) serverCert() (KeyPair, error) {
	return c.issue(x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), c.serviceIP()},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	})
}

// issue signs template, given its subject and what it is for, with the lab's authority.
func (c *Cluster) issue(template x509.Certificate) (KeyPair, error) {
	ca, signer, err := c.authority()
	if err != nil {
		return KeyPair{}, err
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return KeyPair{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return KeyPair{}, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = ca.NotBefore, time.Now().Add(lifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, &template, ca, key.Public(), signer)
	if err != nil {
		return KeyPair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return KeyPair{}, err
	}
	pem, err := certutil.EncodeCertificates(cert)
	return KeyPair{Cert: pem, Key: keyPEM}, err
}

func (c *Cluster) authority() (*x509.Certificate, crypto.Signer, error) {
	certs, err := certutil.CertsFromFile(c.path("ca.crt"))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the lab's certificate authority: %w", err)
	}
	key, err := keyutil.PrivateKeyFromFile(c.path("ca.key"))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the lab's certificate authority: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("reading the lab's certificate authority: a %T cannot sign", key)
	}
	return certs[0], signer, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, pem, err
}

func (c *Cluster) writeKeyPair(name string, p KeyPair) error {
	if err := os.WriteFile(c.path(name+".crt"), p.Cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(c.path(name+".key"), p.Key, 0o600)
}
