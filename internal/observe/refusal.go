package observe

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"usher.sh/usher/internal/text"
)

// refusal says for people why a resource cannot be read and what to do about it. It
// returns nil for what may pass by itself: a server that starts or is busy.
func refusal(q question, verb string, err error) error {
	r, where := q.resource, "at cluster scope"
	if q.namespace != "" {
		where = "in namespace " + q.namespace
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("reading %s: the apiserver does not accept the credentials: log in again, or check the user in the kubeconfig: %w", r, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("reading %s: may not %s them %s: %w; %s", r, verb, where, err, howToGetAccess(err))
	case apierrors.IsNotFound(err):
		return notServed(r, err)
	case !isAnswer(err) && !utilnet.IsTimeout(err): // an overloaded server completes no handshake in time: a later one may be
		return fmt.Errorf("reaching the apiserver at %s: check that it runs and that the kubeconfig names the right address: %w", addressIn(err), rootOf(err))
	}
	return nil
}

// notServed says that the apiserver has no such resource, or is none.
func notServed(r resource, err error) error {
	return fmt.Errorf("reading %s: the apiserver does not serve them: usher needs Kubernetes 1.21 or later with policy/v1; check that the address is that of an apiserver: %w", r, err)
}

// Explained says for people what to do about the error of a single request: log in, or reach the apiserver. Whatever else
// the server said speaks for itself.
func Explained(doing string, err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the apiserver does not accept the credentials: log in again, or check the user in the kubeconfig: %w", doing, err)
	case !isAnswer(err) && errors.As(err, new(*url.Error)):
		return fmt.Errorf("%s: reaching the apiserver at %s: check that it runs and that the kubeconfig names the right address: %w", doing, addressIn(err), rootOf(err))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Refused says for people which role would allow a request that RBAC has refused, and of any other error what Explained says. The rules are
// flags of kubectl create clusterrole. The command comes last, to be copied.
func Refused(doing string, err error, role, rules string) error {
	return refusedWith(doing, err, func() string { return grant(role, rules, err) })
}

// RefusedInstalled is Refused where the role is there already: it is bound in a namespace, or with "" in all.
func RefusedInstalled(namespace, doing string, err error, role string) error {
	return refusedWith(doing, err, func() string { return bindTo(namespace, role, RefusedUser(err.Error())) })
}

// BindTo is the advice by which a user may do in a namespace what a role allows that is there already. The command comes last, to be copied.
func BindTo(namespace, role, user string) string {
	return "ask an administrator for: " + bindTo(namespace, role, user)
}

func bindTo(namespace, role, user string) string {
	subject, binding := subjectAndBinding(role, user)
	if namespace == "" {
		return "kubectl create clusterrolebinding " + binding + " --clusterrole=" + role + " " + subject + apply
	}
	return "kubectl create rolebinding " + binding + " -n " + namespace + " --clusterrole=" + role + " " + subject + apply
}

func refusedWith(doing string, err error, grant func() string) error {
	status, refused := errors.AsType[*apierrors.StatusError](err)
	if !refused || !apierrors.IsForbidden(err) || !userInMessage.MatchString(err.Error()) {
		return Explained(doing, err)
	}
	if anonymous(err) {
		return fmt.Errorf("%s: %w; %s", doing, status, logIn)
	}
	return fmt.Errorf("%s: %w; ask an administrator for: %s", doing, status, grant())
}

// GrantTo is the advice by which a user may do what no role allows yet. The rules are flags of kubectl create clusterrole. The command comes
// last, to be copied.
func GrantTo(user, role, rules string) string {
	return "ask an administrator for: " + grantTo(user, role, rules)
}

// BindManager is how an administrator gives the manager the rights of an optional role. Self is who the manager is to the apiserver.
func BindManager(role, self string) string {
	return fmt.Sprintf("kubectl create clusterrolebinding %s --clusterrole=%[1]s %s", role, accountFlag(self))
}

// BindManagerIn is how a namespace gives the manager the rights of a role there.
func BindManagerIn(namespace, role, self string) string {
	return fmt.Sprintf("kubectl create rolebinding %[1]s -n %[2]s --clusterrole=%[1]s %[3]s", role, namespace, accountFlag(self))
}

func accountFlag(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return "--serviceaccount=" + account
	}
	return "--user=" + user
}

// RefusedUser returns the user that RBAC's words name; "" where they are no such words.
func RefusedUser(said string) string {
	if found := userInMessage.FindStringSubmatch(said); found != nil {
		return found[1]
	}
	return ""
}

// isAnswer reports whether an error is what the server said, not that it said nothing.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func addressIn(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return "its address"
	}
	where, parseErr := url.Parse(request.URL)
	if parseErr != nil {
		return request.URL
	}
	return where.Scheme + "://" + where.Host
}

// rootOf leaves out the long address of a request.
func rootOf(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	return err
}

var userInMessage = regexp.MustCompile(`User "([^"]+)" cannot`)

// howToGetAccess is what to type, for a user who may.
func howToGetAccess(err error) string {
	if anonymous(err) {
		return logIn
	}
	return "ask an administrator for: " + grant("usher-read", "--verb=list,watch --resource=pods,nodes,poddisruptionbudgets.policy", err)
}

// howToGetLook is what to type, for a user who may, so that the pods of a namespace can be asked about.
func howToGetLook(namespace string, err error) string {
	if anonymous(err) {
		return logIn
	}
	return "ask an administrator for: " + grantIn(namespace, "usher-why",
		"--verb=list --resource=pods,poddisruptionbudgets.policy,replicasets.apps,deployments.apps,statefulsets.apps,daemonsets.apps,"+
			"replicationcontrollers,jobs.batch,horizontalpodautoscalers.autoscaling,persistentvolumeclaims", err)
}

// grant is the command that gives a role to the user that the server refused. It can be repeated, and others may have the role.
func grant(role, rules string, err error) string {
	return grantTo(RefusedUser(err.Error()), role, rules)
}

func grantTo(user, role, rules string) string {
	subject, binding := subjectAndBinding(role, user)
	return "kubectl create clusterrole " + role + " " + rules + apply +
		" && kubectl create clusterrolebinding " + binding + " --clusterrole=" + role + " " + subject + apply
}

// grantIn does so in one namespace.
func grantIn(namespace, role, rules string, err error) string {
	subject, binding := subjectAndBinding(role, RefusedUser(err.Error()))
	return "kubectl create role " + role + " -n " + namespace + " " + rules + apply +
		" && kubectl create rolebinding " + binding + " -n " + namespace + " --role=" + role + " " + subject + apply
}

const apply = " --dry-run=client -o yaml | kubectl apply -f -"

// subjectAndBinding are the flag that names the refused client, and a name for the binding of a role to it.
func subjectAndBinding(role, user string) (subject, binding string) {
	flag, name := subjectOf(user)
	return flag + "=" + text.ShellWord(name), role + "-" + unfitForName.ReplaceAllString(name, "-")
}

// unfitForName is what a shell, or a path, would take for something else.
var unfitForName = regexp.MustCompile(`[^A-Za-z0-9.@_:-]+`)

// logIn is the advice for anonymous requests: rights that system:anonymous were given would be those of every client.
const logIn = "the kubeconfig gives no credentials, so the apiserver treats its requests as anonymous: log in, or name another user or context"

// anonymous reports whether the server refused a request without credentials.
func anonymous(err error) bool { return RefusedUser(err.Error()) == "system:anonymous" }

// subjectOf is the flag of kubectl create clusterrolebinding for a user, and its value.
func subjectOf(user string) (flag, name string) {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return "--serviceaccount", account
	}
	return "--user", cmp.Or(user, "NAME")
}
