package certificate

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// material is what the Secret holds, in PEM.
type material struct {
	Bundle       []byte // ca.crt: the authorities to trust, newest first
	AuthorityKey []byte // ca.key: the newest one's
	Cert, Key    []byte // tls.crt, tls.key: what is served
}

// Terms say how long certificates live. They are renewed when a third of that is left.
type Terms struct {
	Authority time.Duration
	Serving   time.Duration
	// Settle is how long an authority must have been in the Secret before a certificate that is still good makes way for
	// one of its own: time to arrive in the webhook configurations.
	Settle time.Duration
}

// Default are the terms in force.
var Default = Terms{Authority: 2 * 365 * 24 * time.Hour, Serving: 90 * 24 * time.Hour, Settle: 10 * time.Minute}

// mostAuthorities bounds the bundle against Secrets that are damaged again and again.
const mostAuthorities = 4

// renew returns the material that serves hosts from now on, unchanged where it is good, and when to look again.
func renew(m material, hosts []string, now time.Time, terms Terms) (material, time.Time, error) {
	trusted := authorities(m.Bundle, now)
	signer, err := m.signer(&trusted, now, terms)
	if err != nil {
		return m, time.Time{}, err
	}
	if m.Bundle, err = certutil.EncodeCertificates(trusted...); err != nil {
		return m, time.Time{}, fmt.Errorf("encoding authorities: %w", err)
	}
	served, good := m.served(trusted, hosts, now)
	settled := signer.cert.NotBefore.Add(skew + terms.Settle)
	if good && (!due(served, now) || now.Before(settled)) {
		return m, nextLook(served, signer.cert, settled), nil
	}
	fresh, err := newServing(signer, hosts, now, terms.Serving)
	if err != nil {
		return m, time.Time{}, err
	}
	m.Cert, m.Key, err = fresh.pem()
	return m, nextLook(fresh.cert, signer.cert, settled), err
}

// signer returns the newest authority, which is made and put first into trusted where there is none that will do.
func (m *material) signer(trusted *[]*x509.Certificate, now time.Time, terms Terms) (pair, error) {
	if len(*trusted) > 0 {
		if newest, ok := readPair((*trusted)[0], m.AuthorityKey); ok && !due(newest.cert, now) {
			return newest, nil
		}
	}
	fresh, err := newAuthority(now, terms.Authority)
	if err != nil {
		return pair{}, err
	}
	*trusted = slices.Insert(*trusted, 0, fresh.cert)
	*trusted = (*trusted)[:min(len(*trusted), mostAuthorities)]
	_, m.AuthorityKey, err = fresh.pem()
	return fresh, err
}

// authorities reads those that have not ended. What cannot be read is as good as not there.
func authorities(bundle []byte, now time.Time) []*x509.Certificate {
	all, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(c *x509.Certificate) bool { return !c.IsCA || !now.Before(c.NotAfter) })
}

// served returns the certificate that is served; not good where it must be replaced at once.
func (m *material) served(trusted []*x509.Certificate, hosts []string, now time.Time) (*x509.Certificate, bool) {
	all, err := certutil.ParseCertsPEM(m.Cert)
	if err != nil {
		return nil, false
	}
	if _, ok := readPair(all[0], m.Key); !ok {
		return nil, false
	}
	roots := x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	if _, err := all[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}); err != nil {
		return nil, false
	}
	missing := slices.ContainsFunc(hosts, func(host string) bool { return all[0].VerifyHostname(host) != nil })
	return all[0], !missing
}

// due reports whether less than a third of a certificate's life is left.
func due(c *x509.Certificate, now time.Time) bool { return !now.Before(renewal(c)) }

func renewal(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
}

func nextLook(served, signer *x509.Certificate, settled time.Time) time.Time {
	next := renewal(served)
	if next.Before(settled) {
		next = settled
	}
	if other := renewal(signer); other.Before(next) {
		next = other
	}
	return next
}
