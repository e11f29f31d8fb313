package realetcd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/net/dns/dnsmessage"

	"usher.sh/usher/lab/testlab"
)

// serveDNS answers, until the test ends, with the addresses of Services for NAME.NAMESPACE.svc, as the DNS of a cluster does, and returns where: at the address
// of a Service that leads nowhere else. Services must be served.
func serveDNS(t *testing.T, l *testlab.Lab, namespace string) string {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "dns"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}},
	}
	service, err := l.Client().CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp4", net.JoinHostPort(service.Spec.ClusterIP, "53"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if answer := answerDNS(t.Context(), l, buffer[:max(n, 0)]); err == nil && answer != nil {
				_, _ = conn.WriteTo(answer, from) // who asks asks again
			}
		}
	}()
	return service.Spec.ClusterIP
}

// answerDNS answers one question; nil: it is none.
func answerDNS(ctx context.Context, l *testlab.Lab, packet []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q := m.Questions[0]
	m.RCode = dnsmessage.RCodeNameError
	if parts := strings.Split(strings.TrimSuffix(q.Name.String(), "."), "."); len(parts) == 3 && parts[2] == "svc" {
		service, err := l.Client().CoreV1().Services(parts[1]).Get(ctx, parts[0], metav1.GetOptions{})
		if err == nil {
			m.RCode = dnsmessage.RCodeSuccess
			if ip, err := netip.ParseAddr(service.Spec.ClusterIP); err == nil && q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: ip.As4()},
				}}
			}
		}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}
