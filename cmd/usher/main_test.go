package main

import (
	"crypto/x509"
	"path/filepath"
	"testing"
)

// TestAuthoritiesWithoutFiles: in an image that holds only the program, public certificate authorities are believed.
func TestAuthoritiesWithoutFiles(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("SSL_CERT_DIR", t.TempDir())
	roots, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if roots.Equal(x509.NewCertPool()) {
		t.Error("no certificate authority is believed")
	}
}
