package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"pgregory.net/rapid"
)

var begin = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

var hosts = []string{"usher-webhook.usher-system.svc", "127.0.0.1"}

func renewed(t rapid.TB, m material, at time.Time) (material, time.Time) {
	t.Helper()
	m, next, err := renew(m, hosts, at, Default)
	if err != nil {
		t.Fatal(err)
	}
	return m, next
}

// accepts reports whether a client that trusts the bundle accepts what is served, under every name.
func accepts(t rapid.TB, bundle []byte, m material, at time.Time) bool {
	t.Helper()
	served, err := tls.X509KeyPair(m.Cert, m.Key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(served.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, host := range hosts {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: at}); err != nil {
			return false
		}
	}
	return true
}

func count(t rapid.TB, bundle []byte) int {
	t.Helper()
	all, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestRenewFromNothing(t *testing.T) {
	m, next := renewed(t, material{}, begin)
	if !accepts(t, m.Bundle, m, begin) {
		t.Error("what is served is not accepted")
	}
	if want := begin.Add(60 * 24 * time.Hour); next.Before(want.Add(-time.Hour)) || next.After(want.Add(time.Hour)) {
		t.Errorf("next look at %s, want about %s", next, want)
	}
	if again, _ := renewed(t, m, begin.Add(time.Hour)); !bytes.Equal(again.Cert, m.Cert) || !bytes.Equal(again.Bundle, m.Bundle) {
		t.Error("renewed although it was good")
	}
}

func TestRenewServing(t *testing.T) {
	m, next := renewed(t, material{}, begin)
	later, _ := renewed(t, m, next)
	if bytes.Equal(later.Cert, m.Cert) {
		t.Error("not renewed with a third left")
	}
	if !bytes.Equal(later.Bundle, m.Bundle) || !bytes.Equal(later.AuthorityKey, m.AuthorityKey) {
		t.Error("the authority was renewed as well")
	}
}

// TestRenewAuthority: the old certificate is served until the new authority had time to arrive.
func TestRenewAuthority(t *testing.T) {
	m, _ := renewed(t, material{}, begin)
	at := begin.Add(Default.Authority * 2 / 3)
	m.Cert, m.Key = servedAt(t, m, at.Add(-Default.Serving/2))
	rotated, next := renewed(t, m, at)
	if count(t, rotated.Bundle) != 2 {
		t.Fatalf("%d authorities, want the old and the new one", count(t, rotated.Bundle))
	}
	if !bytes.Equal(rotated.Cert, m.Cert) || !accepts(t, m.Bundle, rotated, at) {
		t.Error("served by an authority that is not trusted yet")
	}
	for range 3 {
		at = next
		rotated, next = renewed(t, rotated, at)
	}
	newest, _, _ := bytes.Cut(rotated.Bundle, []byte("-----END CERTIFICATE-----\n"))
	newest = append(newest, []byte("-----END CERTIFICATE-----\n")...)
	if !accepts(t, newest, rotated, at) {
		t.Error("the new authority never signed what is served")
	}
}

// servedAt renews the serving certificate alone.
func servedAt(t *testing.T, m material, at time.Time) (cert, key []byte) {
	t.Helper()
	all, err := certutil.ParseCertsPEM(m.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	authority, ok := readPair(all[0], m.AuthorityKey)
	if !ok {
		t.Fatal("the authority's key is not its own")
	}
	fresh, err := newServing(authority, hosts, at, Default.Serving)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err = fresh.pem()
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestRenewWhatIsDamaged(t *testing.T) {
	good, _ := renewed(t, material{}, begin)
	other, _ := renewed(t, material{}, begin)
	cases := map[string]func(*material){
		"no bundle":                func(m *material) { m.Bundle = nil },
		"a bundle that is no PEM":  func(m *material) { m.Bundle = []byte("x") },
		"no authority key":         func(m *material) { m.AuthorityKey = nil },
		"another authority's key":  func(m *material) { m.AuthorityKey = other.AuthorityKey },
		"no certificate":           func(m *material) { m.Cert = nil },
		"another key":              func(m *material) { m.Key = other.Key },
		"another's certificate":    func(m *material) { m.Cert, m.Key = other.Cert, other.Key },
		"an authority as the leaf": func(m *material) { m.Cert, m.Key = m.Bundle, m.AuthorityKey },
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			m := good
			damage(&m)
			m, _ = renewed(t, m, begin.Add(time.Hour))
			if !accepts(t, m.Bundle, m, begin.Add(time.Hour)) {
				t.Error("what is served is not accepted")
			}
		})
	}
}

func TestRenewForAnotherHost(t *testing.T) {
	m, _ := renewed(t, material{}, begin)
	more, _, err := renew(m, append(hosts, "usher.example.com"), begin, Default)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(more.Cert, m.Cert) {
		t.Error("the new host has no certificate")
	}
	if !bytes.Equal(more.Bundle, m.Bundle) {
		t.Error("a new host needs no new authority")
	}
}

// TestRenewForYears renews when the next look is due, or later, and checks at every step whether an apiserver that trusts what
// was in the Secret a while ago accepts what is served now.
func TestRenewForYears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := begin
		m, next := renewed(t, material{}, now)
		for range 12 {
			before, bundle := now, m.Bundle
			now = next.Add(time.Duration(rapid.Int64Range(0, int64(20*24*time.Hour)).Draw(t, "late")))
			m, next = renewed(t, m, now)
			if !next.After(now) {
				t.Fatalf("the next look is due at %s, now is %s", next, now)
			}
			if !accepts(t, m.Bundle, m, now) {
				t.Fatalf("%s: not accepted by those who trust the bundle", now)
			}
			if now.Sub(before) < Default.Authority/3 && !accepts(t, bundle, m, now) {
				t.Fatalf("%s: not accepted by those who have the bundle of %s", now, before)
			}
			if n := count(t, m.Bundle); n > 3 {
				t.Fatalf("%d authorities are trusted", n)
			}
		}
	})
}
