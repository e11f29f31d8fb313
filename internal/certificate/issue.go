package certificate

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
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// skew is how far back certificates begin, for apiservers whose clock is behind this machine's.
const skew = 5 * time.Minute

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(now time.Time, life time.Duration) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "usher webhook authority " + now.UTC().Format(time.RFC3339)},
		NotBefore: now.Add(-skew), NotAfter: now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true, IsCA: true,
	}
	return sign(template, pair{template, key}, key)
}

// newServing makes a certificate for hosts, which are DNS names or IP addresses. It never outlives its authority.
func newServing(authority pair, hosts []string, now time.Time, life time.Duration) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "usher webhook"},
		NotBefore:   now.Add(-skew),
		NotAfter:    now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(authority.cert.NotAfter) {
		template.NotAfter = authority.cert.NotAfter
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return sign(template, authority, key)
}

func sign(template *x509.Certificate, by pair, key *ecdsa.PrivateKey) (pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, fmt.Errorf("drawing a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return pair{}, fmt.Errorf("signing a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("reading back a certificate: %w", err)
	}
	return pair{cert, key}, nil
}

func (p pair) pem() (cert, key []byte, err error) {
	if cert, err = certutil.EncodeCertificates(p.cert); err != nil {
		return nil, nil, fmt.Errorf("encoding a certificate: %w", err)
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(p.key); err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return cert, key, nil
}

// readPair reads a certificate with the key that belongs to it; not ok where anything of that is missing or wrong.
func readPair(cert *x509.Certificate, keyPEM []byte) (pair, bool) {
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return pair{}, false
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return pair{}, false
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return pair{cert, key}, ok && public.Equal(cert.PublicKey)
}
