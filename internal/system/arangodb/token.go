package arangodb

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// secretSize is how much of a secret servers use.
const secretSize = 64

// token makes the token of a superuser: HS256 over two constants, which is too little to need a library. It does not expire.
func token(secret []byte) (string, error) {
	secret = bytes.TrimSpace(secret)
	if len(secret) == 0 {
		return "", errors.New("the secret with which tokens are signed is empty")
	}
	secret = secret[:min(len(secret), secretSize)]
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(`{"iss":"arangodb","server_id":"usher"}`))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil)), nil
}
