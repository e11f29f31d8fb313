package observe

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// A role that usher install has made is bound, not made a second time.
func TestInstalledRolesAreBound(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "evictions"}, "", errors.New(`User "eva" cannot list resource "evictions"`))
	for namespace, want := range map[string]string{
		"":     "ask an administrator for: kubectl create clusterrolebinding usher-view-eva --clusterrole=usher-view --user=eva" + apply,
		"shop": "ask an administrator for: kubectl create rolebinding usher-view-eva -n shop --clusterrole=usher-view --user=eva" + apply,
	} {
		if got := RefusedInstalled(namespace, "reading evictions", refused, "usher-view").Error(); !strings.HasSuffix(got, want) {
			t.Errorf("in namespace %q: %s", namespace, got)
		}
	}
	if got := RefusedInstalled("", "reading evictions", errors.New("timeout"), "usher-view").Error(); got != "reading evictions: timeout" {
		t.Errorf("what is no refusal: %s", got)
	}
}
