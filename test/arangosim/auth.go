package arangosim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// authorized checks a token as servers do: signed with the first 64 bytes of the secret, for a superuser.
func (c *Cluster) authorized(header string) bool {
	if c.config.Secret == "" {
		return true
	}
	scheme, token, _ := strings.Cut(header, " ")
	parts := strings.Split(token, ".")
	if !strings.EqualFold(scheme, "bearer") || len(parts) != 3 {
		return false
	}
	mac := hmac.New(sha256.New, []byte(c.config.Secret[:min(len(c.config.Secret), 64)]))
	mac.Write([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !hmac.Equal(signature, mac.Sum(nil)) {
		return false
	}
	return isSuperuser(parts[0], parts[1])
}

func isSuperuser(head, body string) bool {
	var header struct{ Alg, Typ string }
	var claims struct {
		Issuer string `json:"iss"`
		Server string `json:"server_id"`
	}
	first, errHead := base64.RawURLEncoding.DecodeString(head)
	second, errBody := base64.RawURLEncoding.DecodeString(body)
	return errHead == nil && errBody == nil && json.Unmarshal(first, &header) == nil && json.Unmarshal(second, &claims) == nil &&
		header.Alg == "HS256" && claims.Issuer == "arangodb" && claims.Server != ""
}
