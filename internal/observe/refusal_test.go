package observe

import (
	"errors"
	"strings"
	"testing"
)

// What an administrator is asked for works for a second user, and a second time.
func TestGrantsCanBeRepeated(t *testing.T) {
	for user, want := range map[string]string{
		"eva":                        "clusterrolebinding usher-read-eva --clusterrole=usher-read --user=eva ",
		"system:serviceaccount:ci:d": "clusterrolebinding usher-read-ci:d --clusterrole=usher-read --serviceaccount=ci:d ",
		"https://id#a/b":             "clusterrolebinding usher-read-https:-id-a-b --clusterrole=usher-read --user='https://id#a/b' ",
		"Jane Doe":                   "clusterrolebinding usher-read-Jane-Doe --clusterrole=usher-read --user='Jane Doe' ",
		"a;touch /tmp/p $(id)":       "clusterrolebinding usher-read-a-touch-tmp-p-id- --clusterrole=usher-read --user='a;touch /tmp/p $(id)' ",
	} {
		got := howToGetAccess(errors.New(`pods is forbidden: User "` + user + `" cannot list resource "pods"`))
		if !strings.Contains(got, want) || strings.Count(got, "--dry-run=client -o yaml | kubectl apply -f -") != 2 {
			t.Errorf("%s: %s", user, got)
		}
	}
}
