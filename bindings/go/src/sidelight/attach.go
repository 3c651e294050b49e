// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The publisher's side of sidelight-attach(7).

const (
	attachMagic = 0x314d4c53

	packetPublish  = 1
	packetAdmitted = 2
	packetRefused  = 3
	packetClose    = 4
	packetVerdict  = 20

	retryMin     = 250 * time.Millisecond
	retryMax     = 500 * time.Millisecond
	retryFull    = 10 * time.Millisecond
	retryRefused = 30 * time.Second
	againMax     = 7 // quick retries after EAGAIN; the delay doubles from retryMin to 16 s
	sendPatience = time.Second
	ttlMax       = time.Hour
)

// An attachment offers regions to the agent, and reconnects when the connection ends.
type attachment struct {
	pub      *Publisher
	attached atomic.Bool
	alarm    atomic.Int64 // end of the alarm, in nanoseconds since epoch
	epoch    time.Time
	ended    chan struct{}
	done     chan struct{}

	mu      sync.Mutex // taken after the publisher's
	conn    *net.UnixConn
	serial  uint32
	regions []*region
	sent    map[uint32]*region
	logged  bool
}

func newAttachment(p *Publisher) *attachment {
	return &attachment{pub: p, epoch: time.Now(), ended: make(chan struct{}), done: make(chan struct{})}
}

// offer publishes another region. The first one connects at once, so that even a short-lived process is seen.
func (a *attachment) offer(r *region) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.regions = append(a.regions, r)
	if a.conn != nil {
		a.publish(r)
	} else if len(a.regions) == 1 {
		a.connect()
	}
}

func (a *attachment) connect() error {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: a.pub.options.Socket, Net: "unixpacket"})
	if err != nil {
		return err
	}
	a.conn, a.sent = conn, map[uint32]*region{}
	for _, r := range a.regions {
		a.publish(r)
	}
	return nil
}

func (a *attachment) send(kind uint16, payload []byte, rights []byte) (serial uint32, err error) {
	a.serial++
	packet := make([]byte, 16+len(payload))
	binary.LittleEndian.PutUint32(packet, attachMagic)
	binary.LittleEndian.PutUint16(packet[4:], kind)
	binary.LittleEndian.PutUint32(packet[8:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(packet[12:], a.serial)
	copy(packet[16:], payload)
	a.conn.SetWriteDeadline(time.Now().Add(sendPatience))
	_, _, err = a.conn.WriteMsgUnix(packet, rights, nil)
	return a.serial, err
}

func (a *attachment) publish(r *region) {
	var payload [16]byte
	binary.LittleEndian.PutUint64(payload[:], r.instance)
	binary.LittleEndian.PutUint64(payload[8:], r.size)
	serial, err := a.send(packetPublish, payload[:], syscall.UnixRights(r.fd))
	if err != nil {
		a.conn.CloseRead() // makes run() connect again
		return
	}
	a.sent[serial] = r
}

// run keeps a connection until stop().
func (a *attachment) run() {
	defer close(a.done)
	delay := retryFull
	for {
		a.mu.Lock()
		if a.conn == nil && a.stopped() { // stop() would not close a connection made after it
			a.mu.Unlock()
			return
		}
		var err error
		if a.conn == nil {
			err = a.connect()
		}
		conn := a.conn
		a.mu.Unlock()
		if err == nil {
			delay = retryMin
			a.receive(conn)
			a.attached.Store(false)
			a.mu.Lock()
			if !a.stopped() { // otherwise stop() closes it
				conn.Close()
				a.conn = nil
			}
			a.mu.Unlock()
		} else if errors.Is(err, syscall.EAGAIN) {
			delay = retryFull
		}
		timer := time.NewTimer(delay)
		select {
		case <-a.ended:
			timer.Stop()
			return
		case <-timer.C:
		}
		if delay += retryMin / 2; delay > retryMax {
			delay = retryMax
		}
	}
}

// receive reads until the connection ends.
func (a *attachment) receive(conn *net.UnixConn) {
	var packet [4096]byte
	for {
		n, err := conn.Read(packet[:]) // the kernel drops descriptors in the packet
		if err != nil || !a.take(packet[:n]) {
			return
		}
	}
}

// take handles a packet. It returns false if the packet is malformed.
func (a *attachment) take(packet []byte) bool {
	le := binary.LittleEndian
	if len(packet) < 16 || le.Uint32(packet) != attachMagic || le.Uint32(packet[8:]) != uint32(len(packet)-16) {
		return false
	}
	payload := packet[16:]
	switch kind := le.Uint16(packet[4:]); {
	case kind == packetAdmitted:
		a.attached.Store(true)
		a.mu.Lock()
		if r := a.sent[le.Uint32(packet[12:])]; r != nil {
			r.again = 0
		}
		a.mu.Unlock()
	case kind == packetRefused && len(payload) >= 4:
		reason := payload[4:]
		for i, c := range reason {
			if c == 0 {
				reason = reason[:i]
				break
			}
		}
		a.refused(le.Uint32(packet[12:]), syscall.Errno(le.Uint32(payload)), string(reason))
	case kind == packetVerdict && len(payload) >= 40:
		ttl := le.Uint64(payload[16:])
		if ttl > uint64(ttlMax) {
			ttl = uint64(ttlMax)
		}
		until := int64(0)
		if le.Uint64(payload[8:])&1 != 0 {
			until = int64(time.Since(a.epoch)) + int64(ttl)
		}
		a.alarm.Store(until)
	}
	return true // ignore messages of a later version
}

func (a *attachment) alarmed() bool { return int64(time.Since(a.epoch)) < a.alarm.Load() }

// refused offers a refused region again: at once if it had holes, soon if the agent said EAGAIN, otherwise later.
func (a *attachment) refused(serial uint32, e syscall.Errno, reason string) {
	a.mu.Lock()
	r, conn := a.sent[serial], a.conn
	delete(a.sent, serial)
	a.mu.Unlock()
	if r == nil {
		return
	}
	delay := retryRefused
	if e == syscall.EAGAIN && r.again < againMax {
		delay = retryMin << r.again
		r.again++
	}
	if e == syscall.ENODATA {
		a.pub.mu.Lock()
		if !r.dense && r.mem != nil && r.allocateAll() == nil {
			delay = 0
		}
		a.pub.mu.Unlock()
	}
	if delay == retryRefused {
		a.mu.Lock()
		first := !a.logged
		a.logged = true
		a.mu.Unlock()
		if first {
			a.pub.logf("the agent refused the region, next try in %v socket=%s error=%d reason=%q", delay, a.pub.options.Socket,
				int(e), reason)
		}
	}
	time.AfterFunc(delay, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.conn == conn && !a.stopped() {
			a.publish(r)
		}
	})
}

func (a *attachment) stopped() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// stop sends CLOSE for all regions, and ends run().
func (a *attachment) stop() {
	a.mu.Lock()
	close(a.ended)
	conn := a.conn
	if conn != nil {
		for _, r := range a.regions {
			var payload [8]byte
			binary.LittleEndian.PutUint64(payload[:], r.instance)
			a.send(packetClose, payload[:], nil)
		}
		// Closing a socket with an unread message would reset the connection, which the agent would see before CLOSE. Let
		// run() read the waiting messages first.
		conn.CloseRead()
	}
	a.mu.Unlock()
	<-a.done
	if conn != nil {
		conn.Close()
	}
}
