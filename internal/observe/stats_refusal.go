package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func nodeRefusal(name string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("reading node %s: you may not get nodes: %s: %w", name, howToSeePressure(err), err)
	case !isAnswer(err):
		return fmt.Errorf("reaching the apiserver at %s: check that it runs and that the kubeconfig names the right address: %w", addressIn(err), rootOf(err))
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("reading node %s: the apiserver does not accept the credentials: log in again, or check the user in the kubeconfig: %w", name, err)
	}
	return fmt.Errorf("reading node %s: %w", name, err)
}

func podsRefusal(name string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("reading the pods of node %s: you may not list pods of all namespaces: %s: %w", name, howToSeePressure(err), err)
	}
	return fmt.Errorf("reading the pods of node %s: %w", name, err)
}

// kubeletRefusal says what between the client and the kubelet refused or broke down.
func kubeletRefusal(node *corev1.Node, err error) error {
	about := "asking the kubelet of node " + node.Name
	fromKubelet := bodyOf(err)
	switch code := codeOf(err); {
	case code == http.StatusForbidden && fromKubelet == "":
		return fmt.Errorf("%s: you may not get nodes/proxy, which is what reading its /stats/summary through the apiserver needs: %s: %w", about, howToSeePressure(err), err)
	case code == http.StatusUnauthorized, strings.HasPrefix(fromKubelet, "Forbidden (user="):
		return fmt.Errorf("%s: it does not let the apiserver read nodes/stats: give the apiserver's own user the cluster role system:kubelet-api-admin: %w", about, said(err))
	case code == http.StatusForbidden:
		return fmt.Errorf("%s: something between the apiserver and it refused%s: %w", about, readiness(node), said(err))
	case code == http.StatusNotFound:
		// Not wrapped: it is not the node that was not found.
		return fmt.Errorf("%s: nothing serves /stats/summary there, so it is no real kubelet: %s", about, said(err).Error())
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return fmt.Errorf("%s: the apiserver cannot reach it%s: %w", about, readiness(node), said(err))
	case strings.Contains(err.Error(), "no preferred addresses found"):
		return fmt.Errorf("%s: the node has no address at which the apiserver could ask one, so it is no real node, or one whose kubelet has not reported yet: %w", about, said(err))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %s%s; a node that is short of memory may be too slow to say so: %w", about, kubeletPatience, readiness(node), err)
	case code == 0:
		return fmt.Errorf("%s: its answer broke off: %w", about, rootOf(err))
	}
	return fmt.Errorf("%s: %w", about, said(err))
}

func codeOf(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

// bodyOf is what a server said that is no apiserver; "" where an apiserver answered.
func bodyOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
				return strings.TrimSpace(cause.Message)
			}
		}
	}
	return ""
}

// said prefers the server's own words to those that the client library made of its code.
func said(err error) error {
	if body := bodyOf(err); body != "" {
		return fmt.Errorf("%s (code %d)", body, codeOf(err))
	}
	return err
}

// readiness adds what the cluster knows of a node that is not ready.
func readiness(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf(" (the node has not been ready since %s: %s)", c.LastTransitionTime.UTC().Format("2006-01-02 15:04:05 UTC"), c.Message)
		}
	}
	return ""
}

// howToSeePressure is what to type, for a user who may. The right to get nodes/proxy is a strong one, so it is named
// together with the way to do without.
func howToSeePressure(err error) string {
	if anonymous(err) {
		return logIn
	}
	return "ask an administrator for: " + grant("usher-pressure", "--verb=get,list --resource=nodes,pods,nodes/proxy", err) +
		"; or for the file of: kubectl get --raw /api/v1/nodes/NODE/proxy/stats/summary, and read it with -f"
}
